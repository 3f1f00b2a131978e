# Stops a test's PostgreSQL server once no process has held the lock file for some seconds, however those ended.
# Arguments: lock file, seconds, folder of the server's programs, the server's folder, file that names the server (or -),
# user (or -).
lock=$1 grace=$2 bin=$3 root=$4 ready=$5 user=$6
cd / || exit 1
exec 9<"$lock"
free=0
while sleep 1; do
  if flock -n -x 9; then
    free=$((free + 1))
    # The lock is kept now: whoever comes next waits until the server is gone.
    [ "$free" -ge "$grace" ] && break
    flock -u 9
  else
    free=0
  fi
done
[ "$ready" = - ] || rm -f "$ready"
as() { if [ "$user" = - ]; then "$@"; else runuser -u "$user" -- "$@"; fi; }
as "$bin/pg_ctl" -D "$root/data" -m immediate -w stop
rm -rf "$root"
