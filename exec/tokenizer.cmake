# Tokenizers by ICU, or their twin that refuses: which of the two in sources, what to link in tokenizer_libraries.
if(TANDEM_ICU_FOUND)
  list(FILTER sources EXCLUDE REGEX "/icu_absent\\.cpp$")
  set(tokenizer_libraries ICU::uc)
else()
  list(FILTER sources EXCLUDE REGEX "/exec/tokenizer/(unicode/unicode|tokenizer)\\.cpp$")
  set(tokenizer_libraries)
endif()
