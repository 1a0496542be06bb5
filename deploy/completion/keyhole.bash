# keyhole.bash - bash asks keyhole what may stand where the cursor is
# shellcheck shell=bash
_keyhole()
{
	local word line typed=${COMP_WORDS[COMP_CWORD]} words=() found=() IFS=$' \t\n'

	# bash cuts --option=value into three words.
	for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
		[[ $word == = ]] || words+=("$word")
	done
	if [[ $typed == = ]]; then
		typed=
		words+=('')
	fi
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		:files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$typed") ;;
		:folders) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$typed") ;;
		:commands) mapfile -t COMPREPLY < <(compgen -c -- "$typed") ;;
		*) found+=("${line%%$'\t'*}") ;;
		esac
	done < <("${COMP_WORDS[0]}" complete "${words[@]}" 2>/dev/null)
	[[ ${#found[@]} -eq 0 ]] || COMPREPLY=("${found[@]}")
}
complete -F _keyhole keyhole
