# Completion of rustorch in bash. The program itself knows its commands, options and models.

_rustorch() {
    local line=${COMP_LINE:0:COMP_POINT} breaks='' prefix='' space word current i
    local -a words=()
    # bash splits words at colons, which names of models have: joins what no space separates.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        space=${line%%[^[:space:]]*}
        line=${line#"$space"}
        word=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && word=$line
        line=${line#"$word"}
        if [[ -n $space || $i -eq 0 ]]; then
            words+=("$word")
        else
            words[${#words[@]}-1]+=$word
        fi
    done
    # bash replaces only what follows the last break.
    current=${words[${#words[@]}-1]}
    [[ $COMP_WORDBREAKS == *:* ]] && breaks+=':'
    [[ $COMP_WORDBREAKS == *=* ]] && breaks+='='
    [[ -n $breaks ]] && prefix=${current%"${current##*["$breaks"]}"}
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        [[ -n $word ]] || continue
        word=${word#"$prefix"}
        case $word in
            '~'*) printf -v word '~%q' "${word#?}" ;;
            *[!A-Za-z0-9._/:=@%+,-]*) printf -v word %q "$word" ;;
        esac
        COMPREPLY+=("$word")
    done < <(command rustorch complete -- "${words[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}

complete -o default -o nosort -F _rustorch rustorch 2>/dev/null || complete -o default -F _rustorch rustorch
