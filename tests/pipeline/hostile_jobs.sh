# The second half of hostile.sh's table: the commands beside run, in the folder of tiny_world.sh. $W/done is a finished run.
pairs="--embedding.train pairs.tsv"
embedding="$G train-embedding --model.encoder model $cpu --train.epochs 1 --train.batch 8 --train.max-length 24 --run.dir r"
mine="$G mine --model.encoder model $cpu --run.dir r"
t5=$source/tests/pipeline/fixtures/t5
seq2seq="$G train-seq2seq --seq2seq.model $t5 $cpu --train.epochs 1 --train.batch 8 --seq2seq.source-length 24 --seq2seq.target-length 8 --run.dir r"
generate="$G generate $cpu --generate.max-length 4 --output.file out"
pretrain="$G pretrain --input.format lines --pretrain.model model $cpu --train.epochs 1 --train.batch 8 --train.max-length 24 --run.dir r"
select="$G select --run.dir d --select.documents 5 --output.file out.csv"
plan="$G plan --plan.gpu a6000-48"

# Where a stage of its own was finished before, that stays: `rm -rf r/stages` leaves the rest to be compared.

# --- the same faults, from every command that meets them
refused prepare-labels-of-a-run 65 'config.ini*' '' '$prepare --input.file $W/done/config.ini'
accepted predict-config-of-a-run 'ln -s $W/done/model m' '$G predict --config $W/done/config.ini --model.dir m --input.file in/test/corpus.txt --output.file out' '[ $(wc -l < out) = 40 ]'
accepted evaluate-config-of-a-run '' '$G evaluate --config $W/done/config.ini --input.dir in --run.dir r --eval.predictions $W/done/submission.csv > out' 'grep -q "Example-F1" out && [ -s r/metrics.json ]'
accepted encode-config-of-a-run '' '$G encode --config $W/done/config.ini --model.encoder model --input.file in/test/corpus.txt --output.file out' '[ $(wc -l < out) = 40 ]'
accepted prepare-config-of-a-run '' '$G prepare --config $W/done/config.ini --model.encoder model --input.file in/test/corpus.txt --output.dir out' '[ -e out/manifest.json ]'
accepted report-config-of-a-run 'cp -r $W/done r' '$G report --config r/config.ini --run.dir r' '[ -s r/report.html ]'
refused run-stdin 2 '--input.file has no meaning for run; leave it out (it is for prepare, encode, generate, predict)' '' '$run --input.file -'
refused full-prepare 74 'the disk is full; free some space' '[ "$(id -u)" = 0 ] && mkdir disk && mount -t tmpfs -o size=4k none disk' '$prepare --input.file in/train/corpus.txt --output.dir disk/out; code=$?; umount disk; exit $code'
refused full-generate 74 'cannot write /dev/full: the disk is full' '' '$generate --model.dir $t5 --input.file in/test/corpus.txt --output.file /dev/full'
refused full-plan 74 'cannot write standard output: the disk is full' '' '$plan --plan.job encode --plan.model bert-base > /dev/full'
refused full-report 74 'cannot write /dev/full: the disk is full' 'cp -r $W/done d' '$G report --run.dir d --report.output /dev/full'
refused full-select 74 "cannot write full.csv: the disk is full" "cp -r \$W/done d; ln -s /dev/full full.csv" "\$select --output.file full.csv"
# Weights that are no numbers, through each command that reads an encoder.
nan='python3 - <<PY
import struct
path = "model/model.safetensors"
data = bytearray(open(path, "rb").read())
size = struct.unpack("<Q", data[:8])[0]
for place in range(8 + size, len(data) - 3, 4): data[place:place + 4] = struct.pack("<f", float("nan"))
open(path, "wb").write(data)
PY'
refused nan-run 65 'model/model.safetensors: "*holds numbers that are not finite*take another copy' "$nan" '$run; code=$?; rm -rf r/stages; exit $code'
refused nan-encode 65 'model/model.safetensors: "*holds numbers that are not finite*take another copy' "$nan" '$encode --input.file in/test/corpus.txt'
refused nan-embedding 65 'model/model.safetensors: "*holds numbers that are not finite*take another copy' "$nan" '$embedding $pairs; code=$?; rm -rf r/stages; exit $code'
refused nan-mine 65 'model/model.safetensors: "*holds numbers that are not finite*take another copy' "$nan" '$mine $pairs; code=$?; rm -rf r/stages; exit $code'
accepted predict-ctrl-c 'ln -s $W/done/model m; mkfifo p' \
  '{ cat in/test/corpus.txt; exec sleep 600; } > p & writer=$!; env --default-signal=INT $predict --input.file p & reader=$!; while [ ! -e out.tmp ]; do sleep .05; done; kill -INT $reader; wait $reader; code=$?; kill $writer; [ $code = 130 ]' \
  '[ ! -e out.tmp ] && [ ! -e out ]'

some='ln -s $W/done/model m; printf "pid,text\n7,light and lenses\n3,jazz\n" > p.csv; printf "{\"id\": 7, \"text\": \"light\"}\n{\"text\": \"jazz\"}\n" > p.jsonl'
refused predict-id-typo 65 'p.csv:1: no column `pdi`' "$some" '$predict --input.file p.csv --input.id-field pdi'
refused predict-ids-of-some 65 'p.jsonl:2: no `id`, unlike the rows before' "$some" '$predict --input.file p.jsonl'
accepted predict-ids-numbered "$some" '$predict --input.file p.csv 2> log' 'grep -q "no .id. in these rows: their numbers" log && [ $(grep -Ec "\"id\": ?\"[01]\"" out) = 2 ]'

# --- train-embedding and mine
accepted embedding-config-of-a-run '$embedding $pairs --train.max-steps 1 > log 2>&1' '$G train-embedding --config r/config.ini' 'grep -q "distance = euclidean" r/config.ini'
refused embedding-score-unread 2 '--embedding.score score: no loss that is chosen reads it' '' '$embedding $pairs --embedding.score score'
refused embedding-margin-unread 2 '--embedding.margin 0.3: no loss that is chosen reads it' '' '$embedding $pairs --embedding.margin .3'
refused embedding-nameless 2 'embedding.train*' '' '$embedding'
refused embedding-missing 2 '`embedding.train` names `none.tsv`, which does not exist' '' '$embedding --embedding.train none.tsv'
refused embedding-folder 65 'in: this is no regular file*' '' '$embedding --embedding.train in'
refused embedding-format 65 'pairs.bin: columns have names in JSONL, CSV and TSV alone; give --input.format' 'cp pairs.tsv pairs.bin' '$embedding --embedding.train pairs.bin'
refused embedding-column 65 'pairs.tsv:1: no column `question`*anchor*' '' '$embedding $pairs --embedding.columns question,positive'
refused embedding-columns-twice 2 '`anchor` is named twice; name each column once' '' '$embedding $pairs --embedding.columns anchor,anchor'
refused embedding-empty 65 'pairs.tsv:*' ': > pairs.tsv' '$embedding $pairs'
refused embedding-header-alone 65 'pairs.tsv*' 'sed -i 1q pairs.tsv' '$embedding $pairs'
refused embedding-field 65 'pairs.tsv:5: 1 field*' 'sed -i "5s/\t.*//" pairs.tsv' '$embedding $pairs'
refused embedding-blank 65 'pairs.tsv:5: *' 'sed -i "5s/\t.*/\t/" pairs.tsv' '$embedding $pairs'
refused embedding-score 65 'pairs.tsv:2: *' 'sed -i "1s/$/\tscore/; 2,\$s/$/\thigh/" pairs.tsv' '$embedding $pairs --embedding.loss cosine --embedding.score score'
refused embedding-scoreless 65 'pairs.tsv:1: no column `score`*name the column with --embedding.score' '' '$embedding $pairs --embedding.loss cosine'
refused embedding-range 65 'pairs.tsv:2: *' 'sed -i "1s/$/\tscore/; 2,\$s/$/\t7/" pairs.tsv' '$embedding $pairs --embedding.loss cosine --embedding.score score'
refused embedding-loss 2 '`embedding.loss` must be one of mnrl*' '' '$embedding $pairs --embedding.loss mnr'
refused embedding-matryoshka 2 '`x` is not a number of dimensions; write 256,128,64' '' '$embedding $pairs --embedding.matryoshka x'
refused embedding-wide 2 'matryoshka*' '' '$embedding $pairs --embedding.matryoshka 9999'
refused embedding-prompts 2 'this is no JSON object; write' '' '$embedding $pairs --embedding.prompts query'
refused embedding-dataset 2 '*' '' '$embedding --dataset.a.train pairs.tsv --dataset.a.los mnrl'
refused embedding-mixed 2 '*embedding.train*' '' '$embedding $pairs --dataset.a.train pairs.tsv'
refused embedding-latin1 65 'pairs.tsv:26: *is not UTF-8*' 'printf "n\351e\tx\n" >> pairs.tsv' '$embedding $pairs'
refused embedding-metric 2 'embedding.metric*' '' '$embedding $pairs --embedding.metric accuracy9'
accepted embedding-longer '' '$embedding $pairs --train.max-length 100000' 'grep -q "this model has 24 positions; texts are cut to that" r/log/rank-00000.log'
refused mine-nameless 2 'embedding.train*' '' '$mine'
refused mine-output 2 '--output.file has no meaning for mine; leave it out (it is for encode, generate, predict, select)' '' '$mine $pairs --output.file out'
refused mine-number 2 '--mining.max-score high: give a number or none' '' '$mine $pairs --mining.max-score high'
refused mine-cross 2 '--mining.cross-encoder model without a rule on its scores; give --mining.max-score' '' '$mine $pairs --mining.cross-encoder model'
refused mine-cross-model 65 'model/*classifier*' '' '$mine $pairs --mining.cross-encoder model --mining.max-score .9; code=$?; rm -rf r/stages; exit $code'
accepted mine-few '' '$mine $pairs --mining.negatives 1' '[ -s r/mined.jsonl ]'

# --- train-seq2seq and generate
refused seq2seq-nameless 2 'seq2seq.train*' '' '$seq2seq'
refused seq2seq-column 65 'pairs.tsv:1: no column `source`*' '' '$seq2seq --seq2seq.train pairs.tsv'
refused seq2seq-three 2 'seq2seq.columns*' '' '$seq2seq --seq2seq.train summaries.tsv --seq2seq.columns a,b,c'
refused seq2seq-blank 65 'summaries.tsv:3: *' 'sed -i "3s/\t.*/\t /" summaries.tsv' '$seq2seq --seq2seq.train summaries.tsv'
refused seq2seq-bert 65 'model/config.json: model_type "bert"*' '' '$seq2seq --seq2seq.train summaries.tsv --seq2seq.model model'
refused seq2seq-word 2 'seq2seq.model*' '' '$seq2seq --seq2seq.train summaries.tsv --seq2seq.model huge'
refused generate-cold 2 '--generate.temperature, top-k and top-p shape what is drawn' 'ln -s $t5 t5' '$generate --model.dir t5 --input.file in/test/corpus.txt --generate.temperature .3'
refused generate-nameless 2 '--model.dir is missing; name the folder of a T5 or mT5' '' '$generate --input.file in/test/corpus.txt'
refused generate-bert 65 'model/config.json: model_type "bert"*' '' '$generate --model.dir model --input.file in/test/corpus.txt'
refused generate-tokenizer 74 't5*tokenizer*' 'cp -r $t5 t5; rm t5/spiece.model' '$generate --model.dir t5 --input.file in/test/corpus.txt'
refused generate-weights 65 't5/model.safetensors: *' 'cp -r $t5 t5; truncate -s 5000 t5/model.safetensors' '$generate --model.dir t5 --input.file in/test/corpus.txt'
refused generate-piece 65 't5/spiece.model: *' 'cp -r $t5 t5; head -c 300 $t5/spiece.model > t5/spiece.model' '$generate --model.dir t5 --input.file in/test/corpus.txt'
refused generate-sample 2 'generate.beams 1*' '' '$generate --model.dir $t5 --input.file in/test/corpus.txt --generate.sample true --generate.beams 3'
refused generate-lengths 2 'generate.min-length*' '' '$generate --model.dir $t5 --input.file in/test/corpus.txt --generate.min-length 9'
refused generate-row 65 'in/test/corpus.txt:41: no tab between id and text; write' 'echo x >> in/test/corpus.txt' '$generate --model.dir $t5 --input.file in/test/corpus.txt'
refused generate-output 74 'none/out*check the path' '' '$generate --model.dir $t5 --input.file in/test/corpus.txt --output.file none/out'
refused generate-over-input 2 '--output.file x: this is the text that is read*give another name' 'cp in/test/corpus.txt x' '$G generate --model.dir $t5 $cpu --generate.max-length 4 --input.file x --output.file x'
accepted generate-empty-text 'printf "a\t\nb\tjazz\n" > few.txt' '$generate --model.dir $t5 --input.file few.txt' '[ $(wc -l < out) = 2 ]'

# --- pretrain
refused pretrain-nameless 74 'cannot open data/debtags-topical: no such file or folder; check the path' '' '$pretrain'
refused pretrain-empty 65 'texts*' ': > texts/a.txt' '$pretrain --input.dir texts'
refused pretrain-folder 65 'none*' 'mkdir none' '$pretrain --input.dir none'
refused pretrain-binary 65 'texts/*' 'head -c 4000 /dev/urandom > texts/b.txt' '$pretrain --input.dir texts'
refused pretrain-utf16 65 'texts/a.txt:1: this is UTF-16 or no text at all; convert' 'iconv -t UTF-16 texts/a.txt > t; mv t texts/a.txt' '$pretrain --input.dir texts'
refused pretrain-masked 2 '`pretrain.masked` must be between' '' '$pretrain --input.dir texts --pretrain.masked 2'
refused pretrain-weights 2 'pretrain.weights*' '' '$pretrain --input.dir texts --pretrain.weights b.txt=2'
refused pretrain-model 2 'pretrain.model*' '' '$pretrain --input.dir texts --pretrain.model enormous'
refused pretrain-vocabulary 65 '*vocabulary*' '' '$pretrain --input.dir texts --pretrain.model small --pretrain.vocabulary 20'

# --- select, labels by hand, plan
refused select-nameless 65 'runs/default: there is no finished run in it; name one with --run.dir' '' '$G select --output.file out.csv'
refused select-run 65 'in: *' '' '$select --run.dir in'
refused select-none 2 '`select.documents` must be between' 'ln -s $W/done d' '$select --select.documents 0'
refused select-output 74 'none/out*check the path' 'cp -r $W/done d' '$select --output.file none/out.csv'
refused labels-given-tab 65 'l.txt:1: *' 'echo "d0 jazz" > l.txt' '$run --input.labels l.txt'
refused labels-given-class 65 'l.txt:1: unknown class*' 'printf "d0\trock\n" > l.txt' '$run --input.labels l.txt'
refused labels-given-stranger 65 'l.txt*' 'printf "zz\tjazz\n" > l.txt' '$run --input.labels l.txt'
refused labels-given-twice 65 'l.txt:2: *' 'printf "d0\tjazz\nd0\topera\n" > l.txt' '$run --input.labels l.txt'
refused labels-given-empty 65 'l.txt*' ': > l.txt' '$run --input.labels l.txt'
refused labels-given-missing 2 '`input.labels` names `l.txt`, which does not exist' '' '$run --input.labels l.txt'
refused plan-gpu 2 '--plan.gpu titan: there is no such GPU here; there are v100-16' '' '$G plan --plan.gpu titan'
refused plan-model 2 'plan.model*' '' '$plan --plan.model gpt-9'
refused plan-json 74 'none/p*check the path' '' '$plan --plan.model bert-base --plan.job encode --plan.json none/p'
refused plan-over-config 2 '--plan.config job.ini: there is a file of that name*give another name' 'printf "[train]\nepochs = 3\n" > job.ini' '$plan --config job.ini --plan.model bert-base --plan.job encode --plan.config job.ini'
accepted plan-again '$plan --plan.model bert-base --plan.job encode --plan.config p.ini --plan.json p.json' '$plan --plan.model bert-base --plan.job encode --plan.config p.ini --plan.json p.json' '[ -s p.ini ]'
refused unread-export 2 '--run.export has no meaning for evaluate' '' '$evaluate --eval.predictions $W/done/submission.csv --run.export x'
refused plan-length 2 '--plan.length 100000: bert-base has 512 positions' '' '$plan --plan.model bert-base --plan.job encode --plan.length 100000'
refused plan-calibration 65 'c.json*' 'echo "{" > c.json' '$plan --plan.model bert-base --plan.job encode --plan.calibration c.json'
refused unread-predict 2 '--train.epochs has no meaning for predict; leave it out (it is for run' 'ln -s $W/done/model m' '$predict --input.file in/test/corpus.txt --train.epochs 3'
refused unread-encode 2 '--eval.gold has no meaning for encode; leave it out (it is for run, evaluate)' '' '$encode --input.file in/test/corpus.txt --eval.gold in/labels.txt'
refused unread-evaluate 2 '--decode.k has no meaning for evaluate; leave it out (it is for run, predict)' '' '$evaluate --decode.k 2'
refused unread-method 2 '--taxoclass.similarity pair: no stage of this run reads it; leave it out' '' '$run --taxoclass.similarity pair'
refused unread-preset 2 '--neighbours.k 3: no stage of this run reads it' '' '$run --pipeline.preset paper --neighbours.k 3'
refused unread-adaptation 2 '--pipeline.adapt-epochs 2: no stage of this run reads it' '' '$run --pipeline.adapt none --pipeline.adapt-epochs 2'
refused overruled-training 2 '--train.epochs 5: no stage of this run takes it (adaptation has 2); leave it out' '' '$run --teleclass.head none --train.epochs 5'
refused unread-training 2 '--train.epochs 5: no stage of this run reads it' '' '$run --teleclass.head none --pipeline.adapt none --train.epochs 5'
accepted execution-of-no-training '' '$G run --input.dir in --model.encoder model $cpu --run.dir r --teleclass.head none --pipeline.adapt none --train.micro-batch 3' '[ -s r/predictions.jsonl ]'
accepted cores-without-a-student '' '$G run --input.dir in --model.encoder model $cpu --run.dir r --teleclass.head none --pipeline.adapt none --teleclass.targets cores' '[ -s r/stages/05-hierarchy/core_classes.json ] && [ -s r/predictions.jsonl ]'
refused cores-against-parents 2 'a parent*is the sum of its children' '' '$run --teleclass.targets cores --taxoclass.against-parents true'
refused cores-without-paths 2 '--teleclass.targets cores: no stage of this run reads it' '' '$run --pipeline.preset paper --teleclass.targets cores'
refused unread-bilinear 2 '--teleclass.positive-weight 9: no stage of this run reads it' '' '$run --teleclass.positive-weight 9'
refused unread-adapted-texts 2 '--pipeline.adapt-texts 9: no stage of this run reads it' '' '$run --pipeline.adapt mlm --pipeline.adapt-texts 9'
refused adaptation-without-pairs 65 'in/train/corpus.txt: of its 2 texts 0 have more than one sentence and 0 a neighbour, and --pipeline.adapt sentences learns from those; leave it out' 'printf "0\talpha beta\n1\tgamma delta\n" > in/train/corpus.txt' '$run --pipeline.adapt sentences'
refused unread-decode 2 '--decode.k 2: --decode.mode expected-f1 does not read it; leave it out, or choose --decode.mode top-k' '' '$run --decode.k 2'
refused unread-decode-predict 2 '--decode.threshold 0.2: --decode.mode expected-f1 does not read it*choose --decode.mode threshold' 'ln -s $W/done/model m' '$predict --input.file in/test/corpus.txt --decode.threshold .2'
accepted unread-in-a-config 'printf "[decode]\nk = 5\n[taxoclass]\nsimilarity = pair\n" > c.ini' '$run --config c.ini --taxoclass.nli-model ""' '[ -s r/predictions.jsonl ]'
refused unread-embedding 2 '--input.text-field has no meaning for train-embedding; leave it out' '' '$embedding $pairs --input.text-field body'
accepted evaluate-labelled 'sed "s/^d/t/" in/train/corpus.txt > in/test/corpus.txt; printf "d0\tjazz\nd1\topera\n" > l.txt; $run --input.labels l.txt; rm l.txt' '$evaluate --eval.predictions r/submission.csv > e 2> log; $evaluate --eval.predictions r/predictions.jsonl >> e' '[ $(grep -c "^3 *38 " e) = 2 ] && ! grep -q "not in it" log'
refused doctor-option 2 'unknown option' '' '$G doctor --doctor.everything true'
refused select-filled 2 'l.csv: classes are filled in there, or it is no table of select*give another' 'cp -r $W/done d; printf "id,labels\nd0,jazz\n" > l.csv' '$select --output.file l.csv'
refused select-table 2 '--output.file out: a table for a spreadsheet; give it a name in .csv' 'cp -r $W/done d' '$select --output.file out'
accepted select-formula 'sed -i "1s/\ta/\t=1+1 a/" in/train/corpus.txt; $run' '$G select --run.dir r --select.documents 40 --output.file l.csv' 'grep -q ",.=1+1 a text" l.csv && ! grep -q ",=1+1" l.csv'
accepted labels-given-root 'printf "d0\tarts\n" > l.txt' '$run --input.labels l.txt && $G predict --model.dir r/model $cpu --input.file in/train/corpus.txt --output.file out' 'grep -q "\"id\": \"d0\", \"labels\": \[\"arts\"\]," out'
refused gold-of-others 65 'in/test/doc2labels.txt: none of its 1 documents is in in/test/corpus.txt' 'printf "zz\t6\n" > in/test/doc2labels.txt' '$run'
refused not-utf8 2 'the value of `run.dir` is not UTF-8' '' '$G run $options --run.dir $(printf "caf\351")'
accepted link-to-come 'ln -s $W/done/model m; ln -s elsewhere out' '$predict --input.file in/test/corpus.txt' '[ -L out ] && [ $(wc -l < elsewhere) = 40 ]'
refused simcse-still 2 'simcse with --train.dropout 0: a text and itself would be the same vector; give' '' '$embedding $pairs --embedding.loss simcse --embedding.columns anchor --train.dropout 0'
refused embedding-headless 2 '--train.layers 0: mnrl has no head that could learn alone' '' '$embedding $pairs --train.layers 0'
refused pretrain-best-of-none 78 '--train.validation 0.02 leaves 24 to learn from and 0 to validate on' '' '$pretrain --input.dir texts --train.restore best; code=$?; rm -rf r/stages; exit $code'
accepted inside-0-transformer 'mkdir -p old/1_Pooling; mv model old/0_Transformer; echo "{}" > old/1_Pooling/config.json; echo "[{\"path\": \"0_Transformer\", \"type\": \"sentence_transformers.models.Transformer\"}, {\"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}]" > old/modules.json' '$G encode --model.encoder old $cpu --input.file in/test/corpus.txt --output.file out' '[ $(wc -l < out) = 40 ]'
