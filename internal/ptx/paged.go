package ptx

import (
	"fmt"
	"math"
)

// PagedAttention is attention of one new token of each sequence to keys and values in pages of a shared pool,
// which are read in place.
//
// A block handles a sequence and up to four queries that share a key head. Its warps process pages in turn; a
// team, a group of threads with eight elements each, computes the scores of a token and adds its values. Each
// team has its own maximum score, sum and weighted values, which are combined at the end.
type PagedAttention struct {
	Rows, Heads, KeyHeads, Dim int
	// Pages is the number of pages in each sequence's row of the table, Tokens the tokens of a page.
	Pages, Tokens int
	Scale         float64
	// Window is the number of tokens that a query attends to, including itself; 0 means all.
	Window int
}

const (
	pagedQueries = 4
	pagedEach    = 8 // elements of a head in each thread
	pagedTokens  = 8 // tokens that a warp loads before it computes with them
	// pagedWarps is the number of warps in a block; pagedMostWarps if there are fewer blocks than SMs.
	pagedWarps, pagedMostWarps = 4, 16
)

// threads returns the number of threads in a team, which share a token.
func (q PagedAttention) threads() int { return q.Dim / pagedEach }

func (q PagedAttention) teams() int { return 32 / q.threads() }

// atOnce returns the number of tokens that a team loads before it computes with them.
func (q PagedAttention) atOnce() int { return pagedTokens / q.teams() }

// warps returns the number of warps in a block: more if there are too few blocks for all SMs.
func (q PagedAttention) warps() int {
	if q.blocks() <= Units {
		return pagedMostWarps
	}
	return pagedWarps
}

// queries returns the number of queries of a block.
func (q PagedAttention) queries() int {
	n := min(pagedQueries, q.Heads/q.KeyHeads)
	for q.Heads/q.KeyHeads%n != 0 {
		n--
	}
	return n
}

func (q PagedAttention) blocks() int { return q.Rows * q.Heads / q.queries() }

// Fits reports whether a kernel exists for these sizes.
func (q PagedAttention) Fits() bool {
	return q.Rows > 0 && q.Pages > 0 && q.KeyHeads > 0 && q.Heads > 0 && q.Heads%q.KeyHeads == 0 &&
		(q.Dim == 64 || q.Dim == 128) && q.Tokens > 0 && q.Tokens%pagedTokens == 0 &&
		q.Window >= 0 && q.Rows*q.Heads < 1<<24 && q.Pages*q.Tokens < 1<<24
}

// paged is the kernel being written.
type paged struct {
	product
	PagedAttention
	n int // queries
	// team is the thread's team in its warp, part its index in the team.
	team, part         reg
	seq, first, keys   reg // the sequence, the first query, the key head
	position           reg
	q                  [][]reg
	most, total        []reg
	values             [][]reg
	keyPool, valuePool reg
}

// least is the initial maximum of a thread, hidden the score of a token that is masked for the query.
const least, hidden = -1e30, -2e30

// Kernel returns the kernel. Its arrays: queries of bf16 [rows, heads, dim]; keys and values of bf16 [slots,
// key heads, dim]; each sequence's page table and the position of its token, of i32; then the results, shaped
// as the queries.
func (q PagedAttention) Kernel() Kernel {
	k := &paged{PagedAttention: q, n: q.queries()}
	k.start()
	k.loadQueries()
	k.loop()
	k.joinTeams()
	k.joinWarps()
	threads := 32 * q.warps()
	name := fmt.Sprintf("paged_attention_%dx%dx%dx%d_%d", q.Rows, q.Heads, q.KeyHeads, q.Dim, q.Pages)
	// Dynamic shared memory would reduce the L1 cache through which keys and values are loaded.
	k.static = q.warps() * k.n * (q.Dim + 2) * 4
	text := k.entry(name, 6, fmt.Sprintf(".maxntid %d, 1, 1\n.minnctapersm 1", threads))
	return Kernel{Name: name, Text: text, Blocks: q.blocks() + q.blocks()%2, Threads: threads}
}

// start computes the block's sequence and heads.
func (k *paged) start() {
	k.tid = k.u32("mov.u32", "%tid.x")
	k.lane = k.u32("and.b32", k.tid, 31)
	k.warp = k.u32("shr.u32", k.tid, 5)
	k.base = k.u32("mov.u32", "memory")
	k.team, k.part = k.u32("div.u32", k.lane, k.threads()), k.u32("rem.u32", k.lane, k.threads())
	block := k.u32("mov.u32", "%ctaid.x")
	runs := k.label()
	k.when(k.pred("setp.lt.u32", block, k.blocks()), "bra", runs)
	k.do("ret")
	k.mark(runs)
	each := k.Heads / k.n // blocks of a sequence
	k.seq = k.u32("div.u32", block, each)
	k.first = k.u32("mul.lo.u32", k.u32("rem.u32", block, each), k.n)
	k.keys = k.u32("div.u32", k.first, k.Heads/k.KeyHeads)
	k.position = k.u32("ld.global.b32", at(k.u64("mad.wide.u32", k.seq, 4, k.pointer(4)), 0))
	// The address of the thread's part of the head's first token.
	own := k.u32("mad.lo.u32", k.keys, 2*k.Dim, k.u32("mul.lo.u32", k.part, pagedEach*2))
	k.keyPool = k.u64("add.u64", k.pointer(1), k.u64("cvt.u64.u32", own))
	k.valuePool = k.u64("add.u64", k.pointer(2), k.u64("cvt.u64.u32", own))
}

// words loads the thread's part of a head.
func (k *paged) words(from reg, bytes int) (list []reg) {
	for i := 0; i < pagedEach/2; i += 4 {
		four := []reg{k.reg("r"), k.reg("r"), k.reg("r"), k.reg("r")}
		k.do("ld.global.nc.v4.b32", group(four...), at(from, bytes+4*i))
		list = append(list, four...)
	}
	return list
}

// loadQueries loads the queries and multiplies them by the scale, for exponentials to base 2.
func (k *paged) loadQueries() {
	scale := hexF32(k.Scale * math.Log2E)
	row := k.u32("mad.lo.u32", k.seq, k.Heads, k.first)
	from := k.u64("mad.wide.u32", row, 2*k.Dim, k.pointer(0))
	from = k.u64("mad.wide.u32", k.part, pagedEach*2, from)
	for h := range k.n {
		var list []reg
		for _, w := range k.words(from, 2*k.Dim*h) {
			a, b := k.unpack(w)
			list = append(list, k.f32("mul.f32", a, scale), k.f32("mul.f32", b, scale))
		}
		k.q = append(k.q, list)
		k.most = append(k.most, k.f32("mov.b32", bitsF32(least)))
		k.total = append(k.total, k.f32("mov.b32", 0))
		var values []reg
		for range list {
			values = append(values, k.f32("mov.b32", 0))
		}
		k.values = append(k.values, values)
	}
}

// loop emits the loop over the warp's pages.
func (k *paged) loop() {
	page := k.u32("mov.u32", k.warp)
	if k.Window > 0 { // pages before the window are skipped
		all := k.label()
		k.when(k.pred("setp.lt.u32", k.position, k.Window), "bra", all)
		first := k.u32("div.u32", k.u32("sub.u32", k.position, k.Window-1), k.Tokens)
		k.do("add.u32", page, page, first)
		k.mark(all)
	}
	end := k.u32("div.u32", k.position, k.Tokens)
	table := k.u64("mad.wide.u32", k.u32("mul.lo.u32", k.seq, k.Pages), 4, k.pointer(3))
	again, done := k.label(), k.label()
	k.mark(again)
	k.when(k.pred("setp.lt.u32", end, page), "bra", done)
	number := k.u32("ld.global.b32", at(k.u64("mad.wide.u32", page, 4, table), 0))
	slot := k.u32("mad.lo.u32", number, k.Tokens, k.team)
	token := k.u32("mad.lo.u32", page, k.Tokens, k.team)
	bytes := k.KeyHeads * k.Dim * 2
	keys := k.u64("mad.wide.u32", slot, bytes, k.keyPool)
	values := k.u64("mad.wide.u32", slot, bytes, k.valuePool)
	for i := 0; i < k.Tokens; i += pagedTokens {
		k.tokens(keys, values, token, i, bytes)
	}
	k.do("add.u32", page, page, k.warps())
	k.do("bra", again)
	k.mark(done)
}

// tokens processes some tokens of a page, from the i-th of each team on.
func (k *paged) tokens(keys, values, token reg, i, bytes int) {
	key, value := make([][]reg, k.atOnce()), make([][]reg, k.atOnce())
	for n := range k.atOnce() {
		key[n] = k.words(keys, (i+n*k.teams())*bytes)
	}
	for n := range k.atOnce() {
		value[n] = k.words(values, (i+n*k.teams())*bytes)
	}
	scores := make([][]reg, k.n)
	for n := range k.atOnce() {
		unseen := k.unseen(k.u32("add.u32", token, i+n*k.teams()))
		for h, s := range k.scores(key[n]) {
			for _, p := range unseen {
				k.when(p, "mov.b32", s, bitsF32(hidden))
			}
			scores[h] = append(scores[h], s)
		}
	}
	floats := make([][]reg, k.atOnce())
	for n := range k.atOnce() {
		for _, w := range value[n] {
			a, b := k.unpack(w)
			floats[n] = append(floats[n], a, b)
		}
	}
	for h, list := range scores {
		k.add(h, list, floats)
	}
}

// unseen returns the conditions under which a token is masked for a query.
func (k *paged) unseen(token reg) []reg {
	list := []reg{k.pred("setp.lt.u32", k.position, token)}
	if k.Window > 0 {
		list = append(list, k.pred("setp.ge.u32", k.position, k.u32("add.u32", token, k.Window)))
	}
	return list
}

// scores returns the scores of a token for each query.
func (k *paged) scores(words []reg) []reg {
	list := make([]reg, k.n)
	for i, w := range words {
		a, b := k.unpack(w)
		for h := range list {
			if i == 0 {
				list[h] = k.f32("mul.f32", k.q[h][0], a)
			} else {
				k.do("fma.rn.f32", list[h], k.q[h][2*i], a, list[h])
			}
			k.do("fma.rn.f32", list[h], k.q[h][2*i+1], b, list[h])
		}
	}
	for mask := 1; mask < k.threads(); mask *= 2 {
		for _, s := range list {
			k.do("add.f32", s, s, k.butterfly(s, mask))
		}
	}
	return list
}

// butterfly returns the value of the thread whose index differs by a mask (a shuffle).
func (k *paged) butterfly(x reg, mask int) reg {
	return k.f32("shfl.sync.bfly.b32", x, mask, 31, "0xffffffff")
}

// add adds tokens with their scores to a query's running results.
func (k *paged) add(h int, scores []reg, values [][]reg) {
	most := k.most[h]
	for _, s := range scores {
		most = k.f32("max.f32", most, s)
	}
	keep := k.power(k.most[h], most)
	k.do("mov.b32", k.most[h], most)
	k.do("mul.f32", k.total[h], k.total[h], keep)
	for _, v := range k.values[h] {
		k.do("mul.f32", v, v, keep)
	}
	for n, s := range scores {
		p := k.power(s, most)
		k.do("add.f32", k.total[h], k.total[h], p)
		for i, v := range k.values[h] {
			k.do("fma.rn.f32", v, p, values[n][i], v)
		}
	}
}

// power returns 2 to the power of a - b.
func (k *paged) power(a, b reg) reg { return k.f32("ex2.approx.ftz.f32", k.f32("sub.f32", a, b)) }

// joinTeams combines the results of a warp's teams: then each team has the total.
func (k *paged) joinTeams() {
	for mask := k.threads(); mask < 32; mask *= 2 {
		for h := range k.n {
			other := k.butterfly(k.most[h], mask)
			most := k.f32("max.f32", k.most[h], other)
			own, its := k.power(k.most[h], most), k.power(other, most)
			k.do("mov.b32", k.most[h], most)
			for _, x := range append([]reg{k.total[h]}, k.values[h]...) {
				y := k.butterfly(x, mask)
				k.do("mul.f32", x, x, own)
				k.do("fma.rn.f32", x, y, its, x)
			}
		}
	}
}

// joinWarps combines the results of the warps, and writes them.
func (k *paged) joinWarps() {
	each := k.Dim + 2 // the values of a query, their sum and the maximum score
	mine := k.u32("mad.lo.u32", k.warp, k.n*each*4, k.base)
	written := k.label()
	k.when(k.pred("setp.ge.u32", k.lane, k.threads()), "bra", written)
	values := k.u32("mad.lo.u32", k.part, pagedEach*4, mine)
	for h := range k.n {
		for i, v := range k.values[h] {
			k.do("st.shared.b32", at(values, 4*(h*each+i)), v)
		}
		k.do("st.shared.b32", at(mine, 4*(h*each+k.Dim)), k.total[h])
		k.do("st.shared.b32", at(mine, 4*(h*each+k.Dim+1)), k.most[h])
	}
	k.mark(written)
	k.do("bar.sync", 0, 32*k.warps())
	out := k.u64("mad.wide.u32", k.u32("mad.lo.u32", k.seq, k.Heads, k.first), 2*k.Dim, k.pointer(5))
	done := k.label()
	i := k.u32("mov.u32", k.tid)
	again := k.label()
	k.mark(again)
	k.when(k.pred("setp.ge.u32", i, k.n*k.Dim), "bra", done)
	k.result(i, out, each)
	k.do("add.u32", i, i, 32*k.warps())
	k.do("bra", again)
	k.mark(done)
}

// result writes the i-th element of the block's results.
func (k *paged) result(i, out reg, each int) {
	query := k.u32("div.u32", i, k.Dim)
	head := k.u32("mad.lo.u32", query, each*4, k.base)
	own := k.u32("mad.lo.u32", k.u32("rem.u32", i, k.Dim), 4, head)
	var mosts []reg
	most := k.f32("mov.b32", bitsF32(least))
	for w := range k.warps() {
		m := k.f32("ld.shared.b32", at(head, 4*(w*k.n*each+k.Dim+1)))
		mosts = append(mosts, m)
		most = k.f32("max.f32", most, m)
	}
	sum, total := k.f32("mov.b32", 0), k.f32("mov.b32", 0)
	for w, m := range mosts {
		p := k.power(m, most)
		k.do("fma.rn.f32", sum, p, k.f32("ld.shared.b32", at(own, 4*w*k.n*each)), sum)
		k.do("fma.rn.f32", total, p, k.f32("ld.shared.b32", at(head, 4*(w*k.n*each+k.Dim))), total)
	}
	y := k.f32("mul.f32", sum, k.f32("rcp.approx.ftz.f32", total))
	h := k.reg("h")
	k.do("cvt.rn.bf16.f32", h, y)
	k.do("st.global.b16", at(k.u64("mad.wide.u32", i, 2, out), 0), h)
}

// hexF32 prints a number as a float operand, bitsF32 as an integer operand with the same bits.
func hexF32(x float64) string  { return fmt.Sprintf("0f%08X", math.Float32bits(float32(x))) }
func bitsF32(x float64) string { return fmt.Sprintf("0x%08x", math.Float32bits(float32(x))) }
