# Ids and names of workers. A daemon is asked, none is started.
_musterctl_workers() {
    local -a workers
    local line
    for line in ${(f)"$(musterctl __candidates 2>/dev/null)"}; do
        workers+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    _describe -t workers worker workers
}

