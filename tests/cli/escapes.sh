weir "$(printf "a\\033[31mb")"
