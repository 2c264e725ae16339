package data

import "math/bits"

// Packed has rows of several examples each. Attention must stay within an example of a row, as Row.Segments
// marks them.
type Packed struct {
	e   Examples
	seq int
	// examples are those of all rows; row i has examples[begins[i]:begins[i+1]].
	examples []int32
	begins   []int
}

// Pack packs examples into few rows of seq tokens by best fit decreasing: the longest example first, each
// into the row with the least free space that fits it [Johnson 1973]. No token is left out.
func Pack(e Examples, seq int) (*Packed, error) {
	if err := checkExamples(e, seq); err != nil {
		return nil, err
	}
	room := newRooms(seq)
	next := make([]int32, e.Len()) // the example added to the row before this one; -1 is none
	var tops []int32               // the example added last to each row
	for _, i := range bySize(e, seq) {
		n := e.Size(int(i))
		row, left := room.take(n)
		next[i] = -1
		if row < 0 {
			row, left = len(tops), seq
			tops = append(tops, -1)
		}
		next[i], tops[row] = tops[row], i
		room.put(row, left-n)
	}
	p := &Packed{e: e, seq: seq, begins: []int{0}}
	for _, top := range tops {
		for i := top; i >= 0; i = next[i] {
			p.examples = append(p.examples, i)
		}
		p.begins = append(p.begins, len(p.examples))
	}
	return p, nil
}

// bySize returns the indices of examples, the longest first, in their order if equally long.
func bySize(e Examples, seq int) []int32 {
	starts := make([]int, seq+2)
	for i := range e.Len() {
		starts[seq-e.Size(i)+1]++
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	order := make([]int32, e.Len())
	for i := range e.Len() {
		at := &starts[seq-e.Size(i)]
		order[*at] = int32(i)
		*at++
	}
	return order
}

// rooms holds rows by their free space in tokens.
type rooms struct {
	rows [][]int  // by free space
	some []uint64 // bit n is set if a row has n tokens of free space
}

func newRooms(seq int) *rooms {
	return &rooms{rows: make([][]int, seq+1), some: make([]uint64, seq/64+1)}
}

// take removes the row with the least free space of at least n and returns both; -1 if there is none.
func (r *rooms) take(n int) (row, room int) {
	word := r.some[n/64] >> (n % 64) << (n % 64)
	for k := n / 64; ; word = r.some[k] {
		if word != 0 {
			room = 64*k + bits.TrailingZeros64(word)
			break
		}
		if k++; k == len(r.some) {
			return -1, 0
		}
	}
	list := r.rows[room]
	row, r.rows[room] = list[len(list)-1], list[:len(list)-1]
	if len(list) == 1 {
		r.some[room/64] &^= 1 << (room % 64)
	}
	return row, room
}

// put adds a row with its free space.
func (r *rooms) put(row, room int) {
	r.rows[room] = append(r.rows[room], row)
	r.some[room/64] |= 1 << (room % 64)
}

// Len returns the number of rows.
func (p *Packed) Len() int { return len(p.begins) - 1 }

// Fill writes row i.
func (p *Packed) Fill(i int, r Row) {
	at := 0
	for k, x := range p.examples[p.begins[i]:p.begins[i+1]] {
		end := at + p.e.Size(int(x))
		p.e.Fill(int(x), r.IDs[at:end], r.Labels[at:end])
		for j := at; j < end; j++ {
			r.Segments[j], r.Positions[j] = int32(k+1), int32(j-at)
		}
		at = end
	}
	pad(r, at)
}

// Full returns the share of positions that hold a token.
func (p *Packed) Full() float64 {
	n := 0
	for i := range p.e.Len() {
		n += p.e.Size(i)
	}
	return float64(n) / float64(p.seq*p.Len())
}
