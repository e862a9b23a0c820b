weir completion bash > weir.bash && bash -n weir.bash
weir completion fish > weir.fish
weir completion zsh > _weir
weir --generate man man && ls man
# Syntax, where the shells and linters are there.
if command -v zsh > /dev/null; then zsh -n _weir; fi
if command -v fish > /dev/null; then fish -n weir.fish; fi
if command -v mandoc > /dev/null; then mandoc -T lint -W warning man/*.1; fi
if command -v groff > /dev/null; then groff -man -ww -T ascii man/*.1 2>&1 > /dev/null; fi
