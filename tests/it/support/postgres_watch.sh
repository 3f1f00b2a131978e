# Stops a test's PostgreSQL server once no process holds the lock file any more, however those ended.
# Arguments: lock file, folder of the server's programs, the server's folder, file that names the server (or -), user (or -).
lock=$1 bin=$2 root=$3 ready=$4 user=$5
cd / || exit 1
exec 9<"$lock"
while sleep 1; do
  flock -n -x 9 && break
done
[ "$ready" = - ] || rm -f "$ready"
as() { if [ "$user" = - ]; then "$@"; else runuser -u "$user" -- "$@"; fi; }
as "$bin/pg_ctl" -D "$root/data" -m immediate -w stop
rm -rf "$root"
