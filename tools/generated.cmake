# Manual pages and completions are printed by the program itself: the tables are the only source. A program for another
# machine has none where nothing runs it.
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  return()
endif()
set(WEIR_GENERATED ${CMAKE_BINARY_DIR}/generated/share)
add_custom_command(
  TARGET weir POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E make_directory ${WEIR_GENERATED}/man
  COMMAND weir --generate man ${WEIR_GENERATED}/man
  COMMAND weir completion bash > ${WEIR_GENERATED}/weir.bash
  COMMAND weir completion zsh > ${WEIR_GENERATED}/_weir
  COMMAND weir completion fish > ${WEIR_GENERATED}/weir.fish VERBATIM)
install(DIRECTORY ${WEIR_GENERATED}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${WEIR_GENERATED}/weir.bash RENAME weir
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${WEIR_GENERATED}/_weir DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${WEIR_GENERATED}/weir.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
