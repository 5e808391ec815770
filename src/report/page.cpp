#include "gpuhpc/report/page.hpp"

#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/report/terminal.hpp"

namespace gpuhpc {

extern const std::string_view page_html, draw_js, page_js;  // the files of this folder

std::string report_data(const Json& report) {
  const std::string plain = report.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string data;
  data.reserve(plain.size() + plain.size() / 16);
  // In JSON these stand inside texts alone, where \u.... means the same.
  for (const char c : plain)
    if (c == '<' || c == '>' || c == '&' || c == '\x7F')
      data += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      data += c;
  return data;
}

std::string render_page(std::string_view data) {
  std::string page;
  std::string_view rest = page_html;
  for (const auto& [mark, content] :
       {std::pair<std::string_view, std::string_view>{"{{data}}", data},
        {"{{draw}}", draw_js},
        {"{{page}}", page_js}}) {
    const std::size_t at = rest.find(mark);
    page.append(rest.substr(0, at)).append(content);
    rest.remove_prefix(at + mark.size());
  }
  return page.append(rest);
}

void write_report(const std::filesystem::path& page, const Json& report) {
  const std::string data = report_data(report);
  write_text_file(page, render_page(data));
  write_text_file(std::filesystem::path(page).replace_extension(".json"), data + "\n");
}

Json metrics_data(const std::vector<Figure>& figures) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  Json list = Json::array();
  for (const Figure& figure : figures)
    list.push_back({{"name", figure.name},
                    {"title", figure_title(figure.name)},
                    {"about", figure_about(figure.name)},
                    {"group", figure_group(figure.name)},
                    {"headline", figure_is_headline(figure.name)},
                    {"value", number(figure.value)},
                    {"low", number(figure.low)},
                    {"high", number(figure.high)}});
  return list;
}

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "\xC2\xA0\xE2\x80\xA6";
}

}  // namespace gpuhpc
