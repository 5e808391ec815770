#!/usr/bin/env bash
# figures.sh [--check]   the README's table of figures, made from the newest results files of bench/results. --check fails where the README
# has another row, and where its numbers of documents and classes are not those of the data.
set -eu
cd "$(dirname "$0")/.."

# row "TITLE IN THE README" results-file "ROW THERE": Example-F1, P@1 and macro-F1 of the last row of that name, as .123
row() {
  local title=$1 file
  file=$(find bench/results -name "*-$2.md" | sort | tail -1)
  awk -F' *[|] *' -v title="$title" -v name="$3" -v file="$file" '
    /[|] Example-F1 [|]/ {for (i = 1; i <= NF; ++i) column[$i] = i}
    $2 == name {for (i in of) delete of[i]; n = split("Example-F1,P@1,macro-F1", wanted, ","); for (i = 1; i <= n; ++i) of[i] = $column[wanted[i]]; found = 1}
    END {
      if (!found) {print "figures: " file " has no row `" name "`" > "/dev/stderr"; exit 1}
      for (i = 1; i <= n; ++i) {gsub(/[*]/, "", of[i]); sub(/^0/, "", of[i])}
      printf "| %s | %s | %s | %s |\n", title, of[1], of[2], of[3]
    }' "$file"
}
# shellcheck disable=SC2016  # backticks of Markdown
table() {
  row 'class names alone' quality 'leaf softmax, names, L=2'
  row '`recommended` without training, `--decode.expected-leaves 3`' quality 'recommended without the student, fitted share of CSLS, L=3'
  row '`recommended` (the default)' quality 'recommended, L=1.5 (the default)'
  row 'TaxoClass (`--pipeline.method taxoclass`), `--decode.expected-leaves 3`' taxoclass 'all together (`fixed`)'
  row '`recommended`, `--decode.expected-leaves 3`' quality 'recommended, L=3'
  row 'the same, 10 labelled documents, drawn at random' few-labels '10 labels, random'
  row 'the same, 100 labelled documents, drawn at random' few-labels '100 labels, random'
  row 'the same, 100 labelled documents that `select` asked for' few-labels '100 labels, select'
}
made=$(table)
[ "${1:-}" = --check ] || { echo "$made"; exit 0; }
wrong=0
while IFS= read -r line; do
  grep -qxF -- "$line" README.md || { echo "figures: the README lacks the row: $line" >&2; wrong=1; }
done <<<"$made"
labels=$(find bench/results -name '*-few-labels.md' | sort | tail -1)
while IFS= read -r line; do
  grep -qxF -- "$line" docs/labels.md || { echo "figures: docs/labels.md lacks the row of $labels: $line" >&2; wrong=1; }
done < <(grep -E '^\| [0-9]+ labels, ' "$labels")
data=data/debtags-topical
documents=$(gzip -dc $data/test/corpus.txt.gz | wc -l) classes=$(grep -c . $data/labels.txt)
grep -q "labels $(printf "%'d" "$documents" | sed 's/^\([0-9]*\)\([0-9]\{3\}\)$/\1,\2/') real documents with $classes classes" README.md ||
  { echo "figures: $data has $documents test documents and $classes classes; the README says otherwise" >&2; wrong=1; }
exit $wrong
