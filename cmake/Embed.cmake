# cmake -DINPUT=FILE -DNAME=VARIABLE -DOUTPUT=SOURCE -P Embed.cmake
# Writes a C++ source with the bytes of FILE: an array, as string literals have a longest length.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
string(REPLACE "'\\x0a'," "'\\x0a',\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include <string_view>
namespace gpuhpc {
constexpr char ${NAME}_bytes[] = {
${bytes}};
extern const std::string_view ${NAME};
constinit const std::string_view ${NAME}(${NAME}_bytes, sizeof(${NAME}_bytes));
}  // namespace gpuhpc
")
