# cmake -DINPUT=page.css -DOUTPUT=page_style.cpp -DNAME=kPageStyle -P embed_text.cmake
# A source with the text of a file and its SHA-256, for src/report/page/html_assets.h. One string literal: it compiles at
# once.
file(READ ${INPUT} text)
if(text MATCHES "</script|</style|<!--")  # would end the element that contains the text, or change how it is parsed
  message(FATAL_ERROR "${INPUT} holds ${CMAKE_MATCH_0}, which cannot stand inside an HTML element")
endif()
if(text MATCHES "\\)amdahl\"")
  message(FATAL_ERROR "${INPUT} holds the end of the string literal that would carry it")
endif()
string(SHA256 hash "${text}")
file(WRITE ${OUTPUT} "#include \"report/page/html_assets.h\"\n\nnamespace amdahl {\nextern const EmbeddedText ${NAME}{R\"amdahl(${text})amdahl\", \"${hash}\"};\n}  // namespace amdahl\n")
