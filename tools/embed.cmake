# cmake -DFROM=page.html -DTO=page_html.inc -P embed.cmake: a file's bytes as the initialisers of a C array.
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${bytes}")
string(REGEX REPLACE ", $" "" bytes "${bytes}")
file(WRITE ${TO} "${bytes}\n")
