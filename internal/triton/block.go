package triton

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

var negativeInfinity = math.Inf(-1)

// Block is the numbers that a program holds at once: those of a row, or a part of it. Its size is a power of
// two; what is beyond the row's end is not loaded or stored.
type Block struct {
	k     *Kernel
	size  int
	width int
	index Value
	mask  Value // without a type if all numbers are within the row
	evict string
}

// Row returns a block for a whole row.
func (k *Kernel) Row(width int) *Block {
	b := k.block(1<<bits.Len(uint(width-1)), width)
	if b.size != width {
		b.mask = b.within(b.index)
	}
	return b
}

func (k *Kernel) block(size, width int) *Block {
	b := &Block{k: k, size: size, width: width}
	b.index = k.emit(b.of("i32"), fmt.Sprintf("tt.make_range {end = %d : i32, start = 0 : i32} : %s", size,
		b.of("i32")))
	return b
}

// Part returns a block for a part of a row: size numbers, a power of two, from any index on.
func (k *Kernel) Part(size, width int) *Block { return k.block(size, width) }

// From returns the block at index i of a row.
func (b *Block) From(i Value) *Block {
	moved := *b
	moved.index = b.k.Calc("addi", b.Spread(i), b.index)
	moved.mask = moved.within(moved.index)
	return &moved
}

// Keep returns the block with the cache policy evict_last, for numbers that are read again.
func (b *Block) Keep() *Block { return b.evicted("last") }

// Drop returns the block with the cache policy evict_first, for numbers that are not read again.
func (b *Block) Drop() *Block { return b.evicted("first") }

func (b *Block) evicted(when string) *Block {
	other := *b
	other.evict = " evictionPolicy = evict_" + when
	return &other
}

// Equal returns a mask of the block's index in the row that equals i.
func (b *Block) Equal(i Value) Value {
	return b.k.emit(b.of("i1"), "arith.cmpi eq, %s, %s : "+b.index.typ, b.index, i)
}

// Select returns x where which is true, else y.
func (b *Block) Select(which, x, y Value) Value {
	return b.k.emit(x.typ, "arith.select %s, %s, %s : "+which.typ+", "+x.typ, which, x, y)
}

func (b *Block) of(element string) string { return fmt.Sprintf("tensor<%dx%s>", b.size, element) }

// within returns a mask of the indices that are in the row.
func (b *Block) within(index Value) Value {
	end := b.k.emit(index.typ, fmt.Sprintf("arith.constant dense<%d> : %s", b.width, index.typ))
	return b.k.emit(b.of("i1"), "arith.cmpi slt, %s, %s : "+index.typ, index, end)
}

// Spread broadcasts a number to the block.
func (b *Block) Spread(x Value) Value {
	return b.k.emit(b.of(x.typ), "tt.splat %s : "+x.typ+" -> "+b.of(x.typ), x)
}

// Fill broadcasts a float constant to the block.
func (b *Block) Fill(x float64) Value {
	return b.k.emit(b.of("f32"), "arith.constant dense<"+float(x)+"> : "+b.of("f32"))
}

// pointers returns the addresses of the block's numbers in a row that begins at p, and their element type.
func (b *Block) pointers(p Value) (at Value, element string) {
	s := b.Spread(p)
	return b.k.emit(s.typ, "tt.addptr %s, %s : "+s.typ+", "+b.index.typ, s,
		b.index), strings.TrimSuffix(strings.TrimPrefix(p.typ, "!tt.ptr<"), ">")
}

// Load loads the block's numbers of the row at p, as f32; lanes beyond the row's end get other.
func (b *Block) Load(p Value, other float64) Value {
	at, element := b.pointers(p)
	var x Value
	if b.mask.typ == "" {
		x = b.k.emit(b.of(element), "tt.load %s"+b.evict+" : "+at.typ, at)
	} else {
		text := float(other)
		if other == negativeInfinity {
			text = map[string]string{"f32": "0xFF800000", "bf16": "0xFF80", "f16": "0xFC00"}[element]
		}
		rest := b.k.emit(b.of(element), "arith.constant dense<"+text+"> : "+b.of(element))
		x = b.k.emit(b.of(element), "tt.load %s, %s, %s"+b.evict+" : "+at.typ, at, b.mask, rest)
	}
	if element == "f32" {
		return x
	}
	return b.k.emit(b.of("f32"), "arith.extf %s : "+x.typ+" to "+b.of("f32"), x)
}

// Store stores the block's numbers, which are f32, to the row at p, and returns them as rounded.
func (b *Block) Store(p, x Value) Value {
	at, element := b.pointers(p)
	y := x
	if element != "f32" {
		y = b.k.emit(b.of(element), "arith.truncf %s : "+x.typ+" to "+b.of(element), x)
		x = b.k.emit(b.of("f32"), "arith.extf %s : "+y.typ+" to "+b.of("f32"), y)
	}
	if b.mask.typ == "" {
		b.k.body.WriteString(fill("tt.store %s, %s"+b.evict+" : "+at.typ+" ", []Value{at, y}))
	} else {
		b.k.body.WriteString(fill("tt.store %s, %s, %s"+b.evict+" : "+at.typ+" ", []Value{at, y, b.mask}))
	}
	return x
}
