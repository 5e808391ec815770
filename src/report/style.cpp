#include "page.hpp"

namespace gpuhpc::page {

std::string_view style() {
  return R"css(
:root{--bg:#fbfbfa;--card:#fff;--ink:#1d2329;--soft:#5c6670;--line:#e3e6e8;--accent:#2463a8;--accent-soft:#d9e6f4;
--right:#2463a8;--wrong:#d9822b;
--miss:#9aa3ab;--track:#eef0f2;--s1:#d9822b;--s2:#3b8f6b;--s3:#8a5fb0;--heat:36 99 168;--heat-out:110 120 130;
--heat-ink:#fff;--warn:217 130 43}
@media(prefers-color-scheme:dark){:root{--bg:#14181c;--card:#1b2127;--ink:#e4e8eb;--soft:#98a3ad;--line:#2d353c;
--accent:#6cabea;--accent-soft:#22364a;
--right:#5a9bdc;--wrong:#e39a4e;--miss:#66717b;--track:#262d34;--s1:#e39a4e;--s2:#5fbd94;--s3:#b591dc;
--heat:90 155 220;--heat-out:140 152 164;--heat-ink:#0d1216;--warn:227 154 78}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;scroll-padding-top:3.2rem;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif;
overflow-wrap:anywhere}
header,main,nav{max-width:1180px;margin:0 auto;padding:0 1.25rem}
header{padding-top:2rem;padding-bottom:.5rem}
.brand{margin:0;color:var(--soft);font-size:.8rem;letter-spacing:.08em;text-transform:uppercase}
h1{font-size:clamp(1.35rem,1rem + 1.6vw,2rem);line-height:1.2;margin:.2rem 0 1rem;font-weight:650}
h2{font-size:1.2rem;margin:0 0 .2rem;font-weight:650}
h3{font-size:.95rem;margin:0 0 .4rem;font-weight:600}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1.2rem 1.4rem 1.4rem;
margin:0 0 1.25rem}
.lead{color:var(--soft);margin:0 0 1rem;max-width:75ch}
.num,td.n,th.n{font-variant-numeric:tabular-nums}
nav{position:sticky;top:0;z-index:2;background:var(--bg);display:flex;gap:1.1rem;overflow-x:auto;padding-top:.6rem;
padding-bottom:.6rem;margin-bottom:.6rem;scrollbar-width:none}
nav a{color:var(--soft);text-decoration:none;white-space:nowrap;font-size:.9rem}
nav a:hover,nav a:focus{color:var(--accent)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.4rem,1fr));gap:.8rem;margin:0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.7rem .9rem}
.tile dt{color:var(--soft);font-size:.82rem}
.tile dd{margin:0;font-size:1.6rem;font-weight:650;line-height:1.25;font-variant-numeric:tabular-nums}
.tile dd small{display:block;font-size:.78rem;font-weight:400;color:var(--soft)}
.warn{border-left:3px solid var(--wrong);padding:.35rem .8rem;margin:.8rem 0 0;background:var(--card)}
.rows{display:grid;gap:.15rem}
.frow{display:grid;grid-template-columns:minmax(0,25rem) minmax(12rem,1fr) 10.5rem;gap:.2rem 1.2rem;align-items:center;
padding:.14rem 0}
.frow .name small{display:block;color:var(--soft);font-size:.78rem;line-height:1.3}
.frow .val{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.frow .val small{color:var(--soft)}
.group{margin:1rem 0 .1rem;color:var(--soft);font-size:.78rem;letter-spacing:.06em;text-transform:uppercase}
.track{position:relative;height:1.25rem;background:linear-gradient(var(--line),var(--line)) 0 50%/100% 1px no-repeat}
.track i{position:absolute;top:15%;bottom:15%;width:1px;background:var(--line)}
.track .whisker{position:absolute;top:50%;height:11px;margin-top:-5.5px;border-radius:2px;background:var(--accent);
opacity:.3;min-width:3px}
.track .point{position:absolute;top:50%;width:7px;height:7px;margin:-3.5px 0 0 -3.5px;border-radius:50%;
background:var(--accent)}
.scale{position:relative;height:1.1rem;color:var(--soft);font-size:.75rem}
.scale span{position:absolute;transform:translateX(-50%)}
.scale span:first-child{transform:none}.scale span:last-child{transform:translateX(-100%)}
.bar{background:var(--track);border-radius:3px;height:.9rem;overflow:hidden}
.bar b{display:block;height:100%;background:var(--accent);border-radius:3px;min-width:2px}
.bar b.reused{background:repeating-linear-gradient(135deg,var(--accent) 0 3px,var(--accent-soft) 3px 7px)}
.trow{display:grid;grid-template-columns:11rem 1fr 8.5rem;gap:1rem;align-items:center;padding:.18rem 0}
.trow .val{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:1.2rem 2rem}
figure{margin:0;min-width:0}
figcaption{font-weight:600;font-size:.95rem;margin-bottom:.2rem}
.chart{display:block;width:100%;height:auto;font-family:inherit}
.chart text{font-size:12px;fill:var(--soft)}
.chart text.value{fill:var(--ink);paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}
.chart .grid{stroke:var(--line)}.chart .axis{stroke:var(--miss)}
.chart .plain,.chart .right{fill:var(--right)}.chart .wrong{fill:var(--wrong)}
.chart .line{fill:none;stroke-width:1.6;stroke-linejoin:round}
.series0{stroke:var(--accent)}.series1{stroke:var(--s1)}.series2{stroke:var(--s2)}.series3{stroke:var(--s3)}
.dot{stroke:none}.dot.series0{fill:var(--accent)}.dot.series1{fill:var(--s1)}.dot.series2{fill:var(--s2)}
.dot.series3{fill:var(--s3)}
.series4{stroke:var(--accent)}.series5{stroke:var(--s1)}.series6{stroke:var(--s2)}.series7{stroke:var(--s3)}
.line.series4,.line.series5,.line.series6,.line.series7{stroke-dasharray:5 3}
.dot.series4{fill:var(--accent)}.dot.series5{fill:var(--s1)}.dot.series6{fill:var(--s2)}.dot.series7{fill:var(--s3)}
.p-data{fill:var(--s3);background:var(--s3)}.p-compute{fill:var(--accent);background:var(--accent)}
.p-sum{fill:var(--s1);background:var(--s1)}.p-update{fill:var(--s2);background:var(--s2)}.p-other{fill:var(--miss);background:var(--miss)}
.key{display:inline-block;width:.75rem;height:.75rem;border-radius:2px;margin-right:.45rem;vertical-align:-1px}
.stack{display:flex}.bar.stack b{border-radius:0;min-width:0;flex:none}
.total tr:last-child td{font-weight:650;border-top:2px solid var(--line)}.total small,.snug small{color:var(--soft)}
.slow td{background:rgb(var(--warn)/.14)}.slow em{font-style:normal;color:var(--ink);font-weight:600}
.ranks td.n,.snug td:first-child,.total td.n{white-space:nowrap}.ranks td:not(.n){min-width:6.5rem;overflow-wrap:anywhere}
.slow em{display:block}.rows+.wide{margin-top:1rem}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;color:var(--soft);font-size:.85rem;margin:.1rem 0 .3rem}
.legend i{display:inline-block;width:.75rem;height:.75rem;border-radius:2px;margin-right:.35rem;vertical-align:-1px}
.k-right{background:var(--right)}.k-wrong,.k-1{background:var(--wrong)}.k-0{background:var(--accent)}.k-2{background:var(--s2)}
.k-3{background:var(--s3)}
.k-4{background:repeating-linear-gradient(90deg,var(--accent) 0 3px,transparent 3px 5px)}
.k-5{background:repeating-linear-gradient(90deg,var(--s1) 0 3px,transparent 3px 5px)}
.k-6{background:repeating-linear-gradient(90deg,var(--s2) 0 3px,transparent 3px 5px)}
.k-7{background:repeating-linear-gradient(90deg,var(--s3) 0 3px,transparent 3px 5px)}
figure+figure{margin-top:1rem}.charts>figure{margin-top:0}
.wide{overflow-x:auto;max-width:100%}
.snug{width:auto}.snug td+td,.snug th+th{padding-left:1.6rem}.snug td.best{font-weight:650}
.tall{max-height:30rem;overflow:auto;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{padding:.3rem .6rem;text-align:left;border-bottom:1px solid var(--line);overflow-wrap:normal}
th{color:var(--soft);font-weight:600;background:var(--card);white-space:nowrap}
.tall th{position:sticky;top:0;z-index:1}
td.n,th.n{text-align:right}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid var(--accent)}
th[aria-sort=ascending] button::after{content:" \2191"}th[aria-sort=descending] button::after{content:" \2193"}
tbody tr:last-child td{border-bottom:0}
.filter{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--line);border-radius:6px;
padding:.3rem .6rem;margin:0 0 .6rem;width:min(100%,18rem)}
.heat{width:auto;margin:.2rem 0 0}
.heat th,.heat td{border:0;padding:.25rem .4rem;white-space:nowrap}
.heat thead th{height:7.4rem;vertical-align:bottom;padding:0}
.heat thead th span{font-size:.85rem;display:block;writing-mode:vertical-rl;transform:rotate(180deg);margin:0 auto;
max-height:7.2rem;overflow:hidden;text-overflow:ellipsis;font-weight:400;line-height:1.1}
.heat tbody th{position:sticky;left:0;background:var(--card);font-weight:400;text-align:right;max-width:8.7rem;overflow:hidden;text-overflow:ellipsis;
color:var(--ink)}
.heat td{width:1.95rem;min-width:1.95rem;padding:.3rem 0;text-align:center;font-variant-numeric:tabular-nums;
font-size:.78rem;border:1px solid var(--card)}
.heat td.diag{outline:1.5px solid var(--soft);outline-offset:-2px}
.heat td:not(.out)+td.out{border-left:4px solid var(--card)}
.heat td.zero{color:var(--miss)}
.groups{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1.6rem 2rem}
.groups>*{min-width:0}
.tree{columns:2 24rem;column-gap:2.5rem;margin:0}
.tree details,.tree .leaf{break-inside:avoid-column}
.tree details details,.tree details .leaf{margin-left:1.05rem;break-inside:auto}
.tree summary{cursor:pointer;list-style:none}
.tree summary::-webkit-details-marker{display:none}
.node{display:grid;grid-template-columns:1rem minmax(0,1fr) 4.5rem 7.4rem;gap:.5rem;align-items:center;padding:.1rem 0}
.node.single{grid-template-columns:1rem minmax(0,1fr) 5rem 4rem}
.node .mark::before{content:"\25B8";color:var(--soft);display:inline-block;transition:transform .1s}
details[open]>summary .mark::before{transform:rotate(90deg)}
.leaf .mark::before{content:"\00B7"}
.node .counts{text-align:right;font-variant-numeric:tabular-nums;font-size:.85rem;white-space:nowrap}
.node .counts small{color:var(--soft)}
.pair{position:relative;height:.7rem}
.pair b,.pair u{position:absolute;left:0;border-radius:2px}
.pair b{top:0;height:100%;background:var(--accent);min-width:1px}
.pair.two b{height:45%}.pair.two u{bottom:0;height:45%;background:var(--miss);min-width:1px}
.docs{columns:2 26rem;column-gap:1.25rem}
.doc{break-inside:avoid;border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;margin:0 0 1rem}
.doc .id{color:var(--soft);font-size:.8rem}
.doc p{margin:.15rem 0 .6rem;unicode-bidi:isolate}
.doc ul{list-style:none;margin:0;padding:0;display:grid;gap:.25rem;font-size:.9rem}
.doc li{display:flex;gap:.5rem;align-items:baseline}
.doc li .path{flex:1;min-width:0}
.doc .m{flex:none;width:1.1em;text-align:center;font-weight:700}
.doc .ok{color:var(--right)}.doc .no{color:var(--wrong)}.doc .miss{color:var(--soft)}
.doc .path em{font-style:normal;color:var(--soft)}
.doc .path .bad{text-decoration:underline wavy var(--wrong) 1px;text-underline-offset:3px}
.doc .sc{flex:none;color:var(--soft);font-variant-numeric:tabular-nums;font-size:.82rem}
.more summary{cursor:pointer;color:var(--accent);font-size:.85rem;width:max-content}.doc .more{margin:-.45rem 0 .6rem}
.doc .more p{margin:.2rem 0 0}
bdi{unicode-bidi:isolate}
.also{color:var(--soft);font-weight:400;font-size:.85em}
dl.facts{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.25rem 1.4rem;margin:0}
dl.facts dt{color:var(--soft)}dl.facts dd{margin:0}
details.config{margin-top:1rem}details.config summary{cursor:pointer;color:var(--accent)}
pre{background:var(--bg);border:1px solid var(--line);border-radius:6px;padding:.8rem 1rem;overflow:auto;
max-height:28rem;font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media(max-width:700px){
.chart text{font-size:14.5px}.heat tbody th{max-width:6.6rem}.heat th,.heat td{font-size:.78rem}
header,main,nav{padding-left:.8rem;padding-right:.8rem}section{padding:1rem .9rem 1.1rem}
.tiles{grid-template-columns:repeat(2,minmax(0,1fr));gap:.6rem}.tile:last-child:nth-child(odd){grid-column:1/-1}
.frow .name small{display:none}
.frow{grid-template-columns:minmax(0,1fr) auto;padding:.3rem 0}.frow .track,.frow .scale{grid-column:1/-1;grid-row:2}
.trow{grid-template-columns:minmax(0,1fr) auto;gap:.1rem 1rem;padding:.3rem 0}.trow .bar{grid-column:1/-1;grid-row:2}
.node{grid-template-columns:.8rem minmax(0,1fr) 3rem 6.4rem}.tree details details,.tree details .leaf{margin-left:.6rem}
dl.facts{grid-template-columns:minmax(0,1fr)}dl.facts dd{margin-bottom:.5rem}
th,td{padding:.3rem .4rem}}
@media print{nav,.filter{display:none}body{background:#fff}section{break-inside:avoid-page}.snug{width:auto}
.snug td+td,.snug th+th{padding-left:1.6rem}.snug td.best{font-weight:650}
.tall{max-height:none}}
)css";
}

std::string_view script() {
  // A click on a column head sorts by it: numbers by value, best first; texts by the alphabet. The
  // filter keeps rows that hold its words.
  return R"js(
document.querySelectorAll("table.sortable").forEach(table=>{const body=table.tBodies[0];
table.querySelectorAll("th button").forEach(button=>button.addEventListener("click",()=>{
const head=button.parentElement,column=head.cellIndex,number=head.classList.contains("n"),before=head.getAttribute("aria-sort");
const down=before?before==="ascending":number;
table.querySelectorAll("th").forEach(other=>other.removeAttribute("aria-sort"));
head.setAttribute("aria-sort",down?"descending":"ascending");
const key=row=>{const cell=row.cells[column];return number?Number(cell.dataset.v):cell.textContent.toLowerCase()};
Array.from(body.rows).sort((a,b)=>{const x=key(a),y=key(b);return (x<y?-1:x>y?1:0)*(down?-1:1)}).forEach(row=>body.append(row))}))});
document.querySelectorAll("input.filter").forEach(input=>input.addEventListener("input",()=>{const words=input.value.toLowerCase();
for(const row of document.getElementById(input.dataset.for).tBodies[0].rows)row.hidden=!row.cells[0].textContent.toLowerCase().includes(words)}));
)js";
}

}  // namespace gpuhpc::page
