
# Ids and names of workers. A daemon is asked, none is started.
complete -c musterctl -n "__fish_seen_subcommand_from @VERBS@" -f -a "(musterctl __candidates 2>/dev/null)"
