#pragma once
// The sections of the page; each returns "" when the model has nothing for it.
#include <string>
#include <string_view>

#include "gpuhpc/report/model.hpp"

namespace gpuhpc::page {

std::string_view style();
std::string_view script();

// <section id=..><h2>..</h2><p class=lead>..</p> body </section>, or "" when the body is empty.
std::string section(std::string_view id, std::string_view title, std::string_view lead,
                    const std::string& body);

std::string summary(const ReportModel& model);  // headline tiles and warnings
std::string facts(const ReportModel& model);
std::string stages(const ReportModel& model);
std::string figures(const ReportModel& model);     // dot and whisker
std::string comparison(const ReportModel& model);  // of several runs: figures and options
std::string stages_compared(const ReportModel& model);
std::string taxonomy(const ReportModel& model);
std::string histograms(const ReportModel& model);
std::string confusion(const ReportModel& model);
std::string curves(const ReportModel& model);
std::string split(const ReportModel& model);  // where the time of a training step went
std::string ranks(const ReportModel& model);
std::string levels(const ReportModel& model);
std::string classes(const ReportModel& model);
std::string examples(const ReportModel& model);

}  // namespace gpuhpc::page
