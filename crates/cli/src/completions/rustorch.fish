# Completion of rustorch in fish. The program itself knows its commands, options and models.
complete -c rustorch -f -k -a '(command rustorch complete -- (commandline -opc) (commandline -ct) 2>/dev/null)'
