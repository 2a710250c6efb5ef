
# Ids and names of workers, where one is taken. A daemon is asked, none is started.
_musterctl_with_workers() {
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb= word i words=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        [[ " @VERBS@ " == *" $word "* ]] && verb=$word && break
    done
    if [[ -n $verb && $cur != -* && $before != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(musterctl __candidates 2>/dev/null | cut -f 1)" -- "$cur")
        return
    fi
    _musterctl "$@"
    # What stands for an argument in a synopsis is nothing to type.
    for word in "${COMPREPLY[@]}"; do
        [[ $word == [\[\<]* ]] || words+=("$word")
    done
    COMPREPLY=("${words[@]}")
}
complete -F _musterctl_with_workers -o bashdefault -o default musterctl
