package jit

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/internal/lane"
)

// Set is an instruction set.
type Set uint8

const (
	// AVX2 has vectors of 8 lanes, with fused multiplication and addition; AVX512 of 16.
	AVX2 Set = iota
	AVX512
)

// String returns the name that the kernels use for the set.
func (s Set) String() string {
	if s == AVX512 {
		return "AVX512"
	}
	return "AVX2"
}

// The arguments of generated code, in words of 8 bytes from DI on: rows of a block, scratch memory, blocks,
// and for each stream a pointer, a stride, and the distance from the end of a block to the next.
const (
	argRows = iota
	argScratch
	argBlocks
	argStreams
)

// argStream is the number of words of a stream.
const argStream = 3

// leaf is the most elements that are summed without a tree, as kernel.SumBlock.
const leaf = 4096

// cheapCost is the most instructions of a value that is recomputed in a later pass over a row instead of
// stored.
const cheapCost = 6

// slotBytes is the size of a slot, a vector of either set, in which a value of a row is kept.
const slotBytes = 64

// compiler generates the code of one program.
type compiler struct {
	asm
	p         *Program
	wide      bool
	lanes     int
	size      int // bytes of a lane
	constants []uint64
	numbers   map[uint64]int
	tailMask  int // index of the mask constant, AVX2
	kept      map[int]mem
	spillBase int
	spills    int
	phases    int
	rowLimit  int // vector registers below it are free between passes
	fetching  int // the phase whose last pass prefetches
}

// compile returns the code of a program with its constants, and the bytes of scratch memory that it needs.
func compile(p *Program, set Set) (code []byte, scratch int, err error) {
	c := &compiler{p: p, wide: set == AVX512, size: p.size(), numbers: map[uint64]int{}, kept: map[int]mem{},
		tailMask: -1}
	if c.lanes = 32 / c.size; c.wide {
		c.lanes *= 2
	}
	if err := c.check(); err != nil {
		return nil, 0, err
	}
	c.layout()
	c.function()
	return c.link(), c.spillBase + c.spills*slotBytes, nil
}

// check returns an error for anything that the instruction set does not support.
func (c *compiler) check() error {
	if c.p.Cols < 1 {
		return fmt.Errorf("rows of no columns")
	}
	if c.wide {
		return nil
	}
	if slices.Contains(c.p.Bytes, 2) {
		return fmt.Errorf("16-bit floats: AVX2 has no instruction to store them")
	}
	for _, v := range c.p.Values {
		if v.Kind == Stream && v.Truth && c.p.Double {
			return fmt.Errorf("truths beside f64: AVX2 has no instruction to read them")
		}
		if v.Kind == Stream && v.Level == Elem && v.Truth && c.p.Cols%c.lanes != 0 {
			return fmt.Errorf("truths in rows of %d: AVX2 reads them in eights", c.p.Cols)
		}
	}
	for _, s := range c.p.Stores {
		if c.p.Values[s.Value].Truth {
			return fmt.Errorf("a result of truths: AVX2 has no instruction to store them")
		}
	}
	return nil
}

// layout assigns the scratch memory: slots of rows, one temporary, leaves of sums, stored rows, and spilled
// registers.
func (c *compiler) layout() {
	at := c.leafBase() + len(c.p.Values)*slotBytes
	row := (c.p.Cols*c.size+slotBytes-1)/slotBytes*slotBytes + slotBytes
	costs := make([]int, len(c.p.Values))
	for i, v := range c.p.Values {
		c.phases = max(c.phases, v.Phase+1)
		costs[i] = c.cost(i, costs)
		if v.Level != Elem || v.Kind != Map || costs[i] <= cheapCost || !c.crosses(i) {
			continue
		}
		costs[i] = 1
		if s := c.storeOf(i); s >= 0 { // stored with its result
			continue
		}
		c.kept[i] = mem{base: rdx, index: rcx, scale: c.size, disp: int32(at)}
		at += row
	}
	c.spillBase = at
}

func (c *compiler) tmpSlot() int  { return len(c.p.Values) * slotBytes }
func (c *compiler) leafBase() int { return c.tmpSlot() + slotBytes }

// cost returns the number of instructions to compute an element of a value.
func (c *compiler) cost(i int, costs []int) int {
	v := &c.p.Values[i]
	if v.Kind == Copy {
		return costs[v.In[0]]
	}
	if v.Kind != Map || v.Level != Elem {
		return 1
	}
	b := c.builder(len(v.In))
	args := make([]lane.Arg, len(v.In))
	total := 0
	for k, x := range v.In {
		args[k] = b.In(k)
		if c.p.Values[x].Level == Elem {
			total += costs[x]
		}
	}
	v.Lane(b, args)
	return total + len(b.Code)
}

// crosses reports whether a later pass over the row reads a value.
func (c *compiler) crosses(i int) bool {
	for _, v := range c.p.Values {
		if v.Kind == Map && v.Level == Elem && slices.Contains(v.In, i) && v.Phase > c.p.Values[i].Phase {
			return true
		}
	}
	for _, v := range c.p.Values { // through a copy of it
		if v.Kind == Copy && v.In[0] == i && c.copyCrosses(v.In[0]) {
			return true
		}
	}
	return false
}

// copyCrosses reports whether a copy of a value is read in a later pass.
func (c *compiler) copyCrosses(i int) bool {
	for k, v := range c.p.Values {
		if v.Kind != Copy || c.origin(k) != i {
			continue
		}
		for _, u := range c.p.Values {
			if u.Kind == Map && u.Level == Elem && slices.Contains(u.In, k) && u.Phase > c.p.Values[i].Phase {
				return true
			}
		}
	}
	return false
}

func (c *compiler) origin(i int) int {
	for c.p.Values[i].Kind == Copy {
		i = c.p.Values[i].In[0]
	}
	return i
}

// storeOf returns the stream that a value is stored to unchanged; -1 if there is none.
func (c *compiler) storeOf(i int) int {
	for _, s := range c.p.Stores {
		if c.origin(s.Value) == i && !s.Add {
			return s.Stream
		}
	}
	return -1
}

// constant returns the memory operand of a constant with bits in every lane.
func (c *compiler) constant(bits uint64) mem {
	k, ok := c.numbers[bits]
	if !ok {
		k = len(c.constants)
		c.constants = append(c.constants, bits)
		c.numbers[bits] = k
	}
	return mem{constant: k + 1}
}

// link appends the constants to the code: a lane each for AVX-512, a vector each for AVX2.
func (c *compiler) link() []byte {
	code := c.code
	for len(code)%slotBytes != 0 {
		code = append(code, 0xCC)
	}
	base, size := len(code), c.size
	if !c.wide {
		size = 32
	}
	for k, bits := range c.constants {
		for lane := range size / c.size {
			if k == c.tailMask {
				bits = 0
				if lane < c.p.Cols%c.lanes {
					bits = math.MaxUint64
				}
			}
			code = binary.LittleEndian.AppendUint64(code, bits)[:len(code)+c.size]
		}
	}
	for _, p := range c.patches {
		binary.LittleEndian.PutUint32(code[p.at:], uint32(int32(base+p.constant*size-p.end)))
	}
	return code
}

// builder starts a formula for lanes of the program's size.
func (c *compiler) builder(inputs int) *lane.Builder {
	if c.p.Double {
		return lane.NewDouble(c.wide, inputs).Builder()
	}
	return lane.NewBuilder(c.wide, inputs)
}

// full returns the encoding form for whole vectors.
func (c *compiler) full() form {
	if c.wide {
		return form{length: 2, evex: true, imm: -1}
	}
	return form{length: 1, imm: -1}
}

// function generates the whole function.
func (c *compiler) function() {
	c.load(rsi, at(rdi, 8*argRows))
	c.load(rdx, at(rdi, 8*argScratch))
	if rest := c.p.Cols % c.lanes; rest != 0 {
		if c.wide {
			c.movImm(rax, int32(1)<<rest-1)
			c.rr(kmovw, form{imm: -1}, tailK, 0, rax)
		} else {
			c.tailMask = len(c.constants)
			c.constants = append(c.constants, 0)
		}
	}
	c.rowLimit = c.registers()
	var only *pass
	if c.phases == 1 {
		only = c.onlyPass()
	}
	c.fetching = c.busiest()
	top := len(c.code)
	for phase := range c.phases {
		c.rowValues(phase)
		if only != nil {
			only.emit()
			continue
		}
		c.passes(phase)
	}
	c.rowStores()
	c.advance(1)
	c.dec(rsi)
	c.jump(5, top)
	c.advance(2)
	c.load(rsi, at(rdi, 8*argRows))
	c.load(rax, at(rdi, 8*argBlocks))
	c.dec(rax)
	c.store(at(rdi, 8*argBlocks), rax)
	c.jump(5, top)
	if slices.Contains(c.p.Past, true) {
		c.fence()
	}
	c.finish()
}

// advance adds one of their argument words to the pointers of all streams.
func (c *compiler) advance(word int) {
	for s := range c.p.Streams {
		c.load(rax, c.pointer(s))
		c.addMem(rax, at(rdi, 8*(argStreams+argStream*s+word)))
		c.store(c.pointer(s), rax)
	}
}

// tailK is the opmask register with the lanes of a partial last vector; workK is a temporary one.
const (
	tailK = 7
	workK = 1
)

func (c *compiler) pointer(stream int) mem { return at(rdi, 8*(argStreams+argStream*stream)) }

func (c *compiler) slot(value int) mem { return at(rdx, value*slotBytes) }
