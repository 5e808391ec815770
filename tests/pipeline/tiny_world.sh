# tiny_world.sh   sourced: in the folder $W, with the tree in $source, an input of 12 classes and 40 + 40 texts (in/), a random encoder
# that reads letters (model/), and what the other jobs read (pairs.tsv, texts/); leaves the shell in $W.
mkdir -p "$W/in/train" "$W/in/test" "$W/model"
cd "$W" || exit 1
printf '%s\n' $'0\tscience' $'1\tarts' $'2\tphysics' $'3\tbiology' $'4\tmusic' $'5\tpainting' $'6\toptics' $'7\tmechanics' \
  $'8\tgenetics' $'9\tjazz' $'10\topera' $'11\tportrait' > in/labels.txt
printf '%s\n' $'0\t2' $'0\t3' $'1\t4' $'1\t5' $'2\t6' $'2\t7' $'3\t8' $'4\t9' $'4\t10' $'5\t11' > in/label_hierarchy.txt
words=(optics mechanics genetics jazz opera portrait)
for i in {0..39}; do
  printf 'd%d\ta text about %s and light number %d\n' "$i" "${words[i % 6]}" "$i" >> in/train/corpus.txt
  printf 't%d\tone more text on %s %d\n' "$i" "${words[i % 6]}" "$i" >> in/test/corpus.txt
  printf 't%d\t%d\n' "$i" $((6 + i % 6)) >> in/test/doc2labels.txt
done
cp "$source"/tests/nn/fixtures/tiny_bert/* model/
{ printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' {a..z} '##'{a..z} {0..9} '##'{0..9}
  printf '%s\n' text light the and of to in for on more number about one; } > model/vocab.txt
mkdir texts
{ printf 'anchor\tpositive\n'; for i in {0..23}; do printf 'on %s %d\ta text about %s and light\n' "${words[i % 6]}" "$i" "${words[i % 6]}"; done; } > pairs.tsv
{ printf 'source\ttarget\n'; for i in {0..11}; do printf 'a text about %s and light\t%s\n' "${words[i % 6]}" "${words[i % 6]}"; done; } > summaries.tsv
for i in {0..23}; do echo "one more text on ${words[i % 6]} and number $i"; done > texts/a.txt
