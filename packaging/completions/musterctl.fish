# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_musterctl_global_optspecs
    string join \n system user address= socket= H/host= M/machine= json= j no-legend no-pager no-ask-password q/quiet color= h/help V/version
end

function __fish_musterctl_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_musterctl_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_musterctl_using_subcommand
    set -l cmd (__fish_musterctl_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c musterctl -n "__fish_musterctl_needs_command" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_needs_command" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_needs_command" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_needs_command" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_needs_command" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_needs_command" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_needs_command" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_needs_command" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_needs_command" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_needs_command" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_needs_command" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_needs_command" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_needs_command" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_needs_command" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_needs_command" -s V -l version -d 'Print version'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "list" -d 'List workers (the default verb)'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "ls" -d 'List workers (the default verb)'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "ps" -d 'List workers (the default verb)'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "run" -d 'Start a worker'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "spawn" -d 'Start a worker'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "status" -d 'Show the state of the service or of workers, for people'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "show" -d 'Show everything known of workers, as KEY=VALUE'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "logs" -d 'Print what workers have written'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "monitor" -d 'Print every change of a worker as it happens'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "cancel" -d 'End workers with everything they started, and wait until that is done'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "kill" -d 'Send a signal'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "send" -d 'Pass a word on to a worker that has a control channel'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "freeze" -d 'Freeze workers'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "thaw" -d 'Thaw frozen workers'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "wait" -d 'Wait until workers have ended; returns their status'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "reap" -d 'Take dead rows off the roll that nothing can be lost by'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "hold" -d 'Keep rows on the roll until they are released'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "release" -d 'Undo hold'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "forget" -d 'Take dead rows off the roll now'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "restore" -d 'Bring back rows that were reaped or forgotten'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "adopt" -d 'Put a process that somebody else started on the roll'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "report" -d 'Say something of the worker this runs in: tokens used, what it does, that a turn is done'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "tree" -d 'Show workers below who asked for them, with their processes'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "drain" -d 'Take no new workers, end those there are, and wait until that is done'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "resume" -d 'Take new workers again'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "log-level" -d 'Print or set what the daemon logs'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "reload" -d 'Read the configuration again and go on with the installed program; no worker ends'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "metrics" -d 'Print the service\'s counters as OpenMetrics text'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "check-config" -d 'List all faults of the configuration files'
complete -c musterctl -n "__fish_musterctl_needs_command" -f -a "version" -d 'Print the version'
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l status -d 'Only with one of these statuses (comma-separated; implies --all)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l kind -d 'Only of this kind (a kind or a label)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -s a -l all -d 'Ended workers too'
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand list" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l status -d 'Only with one of these statuses (comma-separated; implies --all)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l kind -d 'Only of this kind (a kind or a label)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -s a -l all -d 'Ended workers too'
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand ls" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l status -d 'Only with one of these statuses (comma-separated; implies --all)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l kind -d 'Only of this kind (a kind or a label)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -s a -l all -d 'Ended workers too'
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand ps" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l name -d 'Free text up to 128 bytes, unique among one\'s running workers' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -s d -l working-directory -d 'Working directory of the worker' -r -f -a "(__fish_complete_directories)"
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l worktree -d 'The worktree its row protects: a directory, `auto` (the linked worktree it runs in), or `none`' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l kind -d 'Why it exists: root-turn, step-turn, think, subagent, command, or a label (subagent:HANDLE, turn:CTX, step:RUN/STEP, think:PURPOSE)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l kind-field -d 'A field of the kind: ctx, event, reservation, msg_depth of a root-turn; run, step, reservation of a step-turn; purpose, ctx, reply_to (NODE:REQUEST), extra (JSON), reservation of a think; handle of a subagent' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -s E -l setenv -d 'An environment variable; without a value the caller\'s own' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l deadline -d 'End it after this time' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l idle-timeout -d 'End it when it has been quiet for so long after a settled turn' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l grace -d 'From the cancel frame to the stop signal' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l kill-grace -d 'From the stop signal to the kill' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l stop-signal -d 'Signal that asks it to end' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l leftovers -d 'What happens to processes that outlive it: kill or wait' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l restart -d 'When to start it again: no, on-failure or always' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l restart-max -d 'Restarts before it is given up' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l memory-max -d 'Memory it may use' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l tasks-max -d 'Processes and threads it may have' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l cpu-weight -d 'Share of the CPU, 1 to 10000' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l cpu-max -d 'CPU time it may use, in percent of one CPU' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l nice -d 'Nice value' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l tokens-max -d 'Tokens it may use, in and out together' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l priority -d 'Who is turned away first under pressure: low, normal or high' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l control -d 'Control channel: none, frames or notify' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l payload -d 'JSON for the spawn frame; @FILE reads a file, - standard input' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l trace-id -d 'Correlation id for its logs' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l uid -d 'Run it as this user (root only)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l clean-env -d 'A login\'s environment instead of the caller\'s'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l private-tmp -d 'Temporary files in a directory that goes with the worker'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -s w -l wait -d 'Wait until it has ended, and return its status'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l detach -d 'Return as soon as it runs (the default)'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l pipe -d 'Give it this terminal\'s or pipe\'s input and output; implies --wait'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l pty -d 'Give it a terminal of its own, shown on this one; implies --wait. Pressing Ctrl-] three times within a second hangs up, and so does the end of this program'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l no-wait -d 'Fail at once where waiting a little would help'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l name -d 'Free text up to 128 bytes, unique among one\'s running workers' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -s d -l working-directory -d 'Working directory of the worker' -r -f -a "(__fish_complete_directories)"
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l worktree -d 'The worktree its row protects: a directory, `auto` (the linked worktree it runs in), or `none`' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l kind -d 'Why it exists: root-turn, step-turn, think, subagent, command, or a label (subagent:HANDLE, turn:CTX, step:RUN/STEP, think:PURPOSE)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l kind-field -d 'A field of the kind: ctx, event, reservation, msg_depth of a root-turn; run, step, reservation of a step-turn; purpose, ctx, reply_to (NODE:REQUEST), extra (JSON), reservation of a think; handle of a subagent' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -s E -l setenv -d 'An environment variable; without a value the caller\'s own' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l deadline -d 'End it after this time' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l idle-timeout -d 'End it when it has been quiet for so long after a settled turn' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l grace -d 'From the cancel frame to the stop signal' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l kill-grace -d 'From the stop signal to the kill' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l stop-signal -d 'Signal that asks it to end' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l leftovers -d 'What happens to processes that outlive it: kill or wait' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l restart -d 'When to start it again: no, on-failure or always' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l restart-max -d 'Restarts before it is given up' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l memory-max -d 'Memory it may use' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l tasks-max -d 'Processes and threads it may have' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l cpu-weight -d 'Share of the CPU, 1 to 10000' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l cpu-max -d 'CPU time it may use, in percent of one CPU' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l nice -d 'Nice value' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l tokens-max -d 'Tokens it may use, in and out together' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l priority -d 'Who is turned away first under pressure: low, normal or high' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l control -d 'Control channel: none, frames or notify' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l payload -d 'JSON for the spawn frame; @FILE reads a file, - standard input' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l trace-id -d 'Correlation id for its logs' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l uid -d 'Run it as this user (root only)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l clean-env -d 'A login\'s environment instead of the caller\'s'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l private-tmp -d 'Temporary files in a directory that goes with the worker'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -s w -l wait -d 'Wait until it has ended, and return its status'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l detach -d 'Return as soon as it runs (the default)'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l pipe -d 'Give it this terminal\'s or pipe\'s input and output; implies --wait'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l pty -d 'Give it a terminal of its own, shown on this one; implies --wait. Pressing Ctrl-] three times within a second hangs up, and so does the end of this program'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l no-wait -d 'Fail at once where waiting a little would help'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand spawn" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -s n -l lines -d 'Lines of output to show' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -s p -l property -d 'Only these properties (comma-separated)' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -l value -d 'Values without their names'
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand show" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -s n -l lines -d 'Only the last lines' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -s f -l follow -d 'Go on until the worker has ended'
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand logs" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand monitor" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l reason -d 'Why, for the row and the worker' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l now -l force -d 'Kill at once instead of asking first'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l keep-descendants -d 'Leave the workers it asked for alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l no-block -d 'Do not wait for the end'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand cancel" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -s s -l signal -d 'The signal' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -l kill-whom -d 'Who gets it: leader, group or all' -r -f -a "leader\t'The leader alone'
group\t'Its process group'
all\t'Every process of the worker'"
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand kill" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -l inject -d 'A message for it: JSON; @FILE reads a file, - standard input' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand send" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand freeze" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand thaw" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l timeout -d 'Give up after this time, with exit code 124' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l any -d 'Until the first of them has ended'
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand wait" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -l grace -d 'Another grace than the configured one' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -s n -l dry-run -d 'Say what would be done, and do nothing'
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand reap" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand hold" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand release" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -l force -d 'Also with uncommitted work in the worktree, or a worktree that could not be looked at; an adopted process that runs goes off the roll and is left alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand forget" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand restore" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l name -d 'Free text up to 128 bytes, unique among one\'s running workers' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l worktree -d 'The worktree its row protects: a directory, `auto` (the linked worktree it works in), or `none`' -r -f -a "(__fish_complete_directories)"
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l kind -d 'Why it exists: root-turn, step-turn, think, subagent, command, or a label' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l kind-field -d 'A field of the kind, as for `run`' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand adopt" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l input -d 'Tokens that went into the model since the last report' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l output -d 'Tokens that came out of the model since the last report' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l failed -d 'The work has failed, and why' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l status -d 'What it is doing, for `status`' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l turn-done -d 'The turn is done'
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l progress -d 'It gets on'
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -s a -l all -d 'Ended workers too'
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand tree" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l reason -d 'Why, for the rows and the log' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l wait -d 'Let the workers finish instead of ending them'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l exit -d 'The daemon ends once no worker is left'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l no-block -d 'Return as soon as admission is closed'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand drain" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand resume" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand log-level" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand reload" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand metrics" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -l config-root -d 'Take configuration files below this directory' -r -f -a "(__fish_complete_directories)"
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand check-config" -s h -l help -d 'Print help'
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -l address -d 'Talk to the daemon over the bus at this D-Bus address' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -l socket -d 'Talk to the daemon that listens on this socket' -r -F
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -s H -l host -d 'Talk to the daemon of another machine, by ssh' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -s M -l machine -d 'Talk to the daemon in a local container' -r
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -l json -d 'JSON instead of tables' -r -f -a "pretty\t'Indented'
short\t'One line'
off\t'Tables for people'"
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -l color -d 'Colours' -r -f -a "auto\t'On a terminal'
always\t'Also in a pipe'
never\t'Never'"
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -l system -d 'Talk to the system\'s daemon over the system bus'
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -l user -d 'Talk to this user\'s daemon: the user service, or a private one'
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -s j -d 'Same as --json=pretty on a terminal, --json=short otherwise'
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -l no-legend -d 'No header and no footer'
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -l no-pager -d 'Do not pipe output into a pager'
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -l no-ask-password -d 'Never ask for a password'
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -s q -l quiet -d 'Say less; `run` prints the id alone'
complete -c musterctl -n "__fish_musterctl_using_subcommand version" -s h -l help -d 'Print help'

# Ids and names of workers. A daemon is asked, none is started.
complete -c musterctl -n "__fish_seen_subcommand_from status show logs monitor cancel kill send freeze thaw wait reap hold release forget" -f -a "(musterctl __candidates 2>/dev/null)"
