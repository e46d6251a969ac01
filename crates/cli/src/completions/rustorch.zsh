#compdef rustorch
# Completion of rustorch in zsh. The program itself knows its commands, options and models.

_rustorch() {
    local -a whole begun
    local line value item
    if [[ $PREFIX != \~* ]]; then
        for line in "${(@f)$(command rustorch complete -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
            value=${line%%$'\t'*}
            [[ -n $value ]] || continue
            # A colon separates a value from its description.
            item=${value//:/\\:}:${line#*$'\t'}
            if [[ $value == *[/=] ]]; then begun+=("$item"); else whole+=("$item"); fi
        done
    fi
    if (( ! $#whole && ! $#begun )); then
        _files
        return
    fi
    (( $#whole )) && _describe -V rustorch whole
    (( $#begun )) && _describe -V rustorch begun -S ''
    return 0
}

if [[ $funcstack[1] == _rustorch ]]; then
    _rustorch "$@"
else
    compdef _rustorch rustorch
fi
