# keyhole.bash - bash asks keyhole what may stand where the cursor is
# shellcheck shell=bash
_keyhole()
{
	local word line typed=${COMP_WORDS[COMP_CWORD]} words=() found=() open='' before='' IFS=$' \t\n'

	# bash cuts --option=value into three words, and a:b as well.
	for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
		if [[ $word == : && ${#words[@]} -gt 0 ]]; then
			words[-1]+=: open=1
		elif [[ $open && $word != = ]]; then
			words[-1]+=$word open=
		else
			[[ $word == = ]] || words+=("$word")
			open=
		fi
	done
	if [[ $typed == = ]]; then
		words+=('')
	fi
	if [[ $typed == [=:] ]]; then
		typed=
	fi
	# What it puts in the place of is the last of them: what is in front of that stands there already.
	if [[ ${words[-1]} == *:* ]]; then
		before=${words[-1]%"${words[-1]##*:}"}
	fi
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		:files | :files-behind) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$typed") ;;
		:folders | :folders-behind) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$typed") ;;
		:commands) mapfile -t COMPREPLY < <(compgen -c -- "$typed") ;;
		*)
			word=${line%%$'\t'*}
			found+=("${word#"$before"}")
			;;
		esac
	done < <("${COMP_WORDS[0]}" complete "${words[@]}" 2>/dev/null)
	if [[ ${#found[@]} -gt 0 ]]; then
		COMPREPLY=("${found[@]}")
		[[ ${#found[@]} -ne 1 || ${found[0]} != *: ]] || compopt -o nospace 2>/dev/null
	fi
}
complete -F _keyhole keyhole
