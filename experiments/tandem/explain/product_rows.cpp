#include "experiments/tandem/explain/rows.hpp"
#include "models/base/error.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

const ProductCoverage& coverage(const ExplainedCase& c) {
  require(c.prediction.measured_products.has_value(), "a key of measured products where there are none");
  return *c.prediction.measured_products;
}

std::string table_text(const ExplainedCase& c, std::size_t) {
  const ProductCoverage& p = coverage(c);
  return p.table + ": " + count_text(p.shapes) + " shapes measured on " + p.card +
         (p.date.empty() ? "" : ", " + p.date) + ": " + p.source;
}

/// All shares, which add up to the whole.
std::string shares_text(const ExplainedCase& c, std::size_t) {
  const ProductCoverage& p = coverage(c);
  double missing = 0;
  for (const UncoveredProduct& u : p.not_covered) missing += u.share;
  return "1 - " + number_text(missing, 6) + ", the shares of " + std::to_string(p.not_covered.size()) +
         " shapes without a measurement";
}

std::string missing_shape(const ExplainedCase& c, std::size_t place) {
  const UncoveredProduct& u = coverage(c).not_covered.at(place);
  return (place == 0 ? std::string("the unmeasured shape that takes most time: ")
                     : "number " + std::to_string(place + 1) + " of the unmeasured shapes, by time: ") + u.product + ", " +
         number_text(100 * u.share, 2) + " %";
}

Row of_table(const std::string& key, const std::string& formula) {
  return {"measured_products." + key, formula, table_text, RangeKind::exact, {"measured"}};
}

Row of_missing(const std::string& key, const std::string& formula) {
  return {"measured_products.not_covered[]" + (key.empty() ? "" : "." + key),
          formula,
          missing_shape,
          RangeKind::exact,
          {"measured"}};
}

}  // namespace

std::vector<Row> product_rows() {
  return {
      {"measured_products",
       "a matrix product takes its measured time if the device's table has its kind, shape, type and sum; other products take the time of a fitted formula",
       shares_text,
       RangeKind::exact,
       {"measured", "calibration:matmul", "calibration:spread"}},
      of_table("table", "name of the table in topology/measured, or the file that --cost-table gave"),
      of_table("card", "card that the table was measured on"),
      of_table("date", "date of the measurement; empty where its source states none"),
      of_table("source", "who measured the table, and with what"),
      of_table("shapes", "products that the table has"),
      {"measured_products.share",
       "time of the products with a measured shape / time of all products, over the tasks of all ranks, each with its time alone; attention without a score matrix does not count as a product",
       shares_text,
       RangeKind::exact,
       {"measured"}},
      {"measured_products.not_covered",
       "products of this step that the table does not have, most time first",
       [](const ExplainedCase& c, std::size_t) { return std::to_string(coverage(c).not_covered.size()) + " shapes"; },
       RangeKind::exact,
       {"measured"}},
      of_missing("", "one of these products"),
      of_missing("product", "which product of which layer, and so how its operands are stored"),
      of_missing("type", "compute type of the product"),
      of_missing("batch", "products of this shape in one kernel: heads, experts"),
      of_missing("m", "rows of the result"),
      of_missing("n", "columns of the result"),
      of_missing("k", "length of the sums"),
      of_missing("accumulate", "type of the total to which the kernel adds the product, or no"),
      of_missing("share", "time of this shape's products / time of all products, over the tasks of all ranks"),
  };
}

}  // namespace tandem::program
