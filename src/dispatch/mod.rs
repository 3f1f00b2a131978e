//! From due to decided: the holder, the lanes of the types, settling, the backlog.
