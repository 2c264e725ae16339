package gguf

import "fmt"

// Kind is how a tensor's elements are stored.
type Kind uint32

// The kinds that are known, by the format's numbers.
const (
	F32  Kind = 0
	F16  Kind = 1
	Q4_0 Kind = 2
	Q4_1 Kind = 3
	Q5_0 Kind = 6
	Q5_1 Kind = 7
	Q8_0 Kind = 8
	Q2_K Kind = 10
	Q3_K Kind = 11
	Q4_K Kind = 12
	Q5_K Kind = 13
	Q6_K Kind = 14
	BF16 Kind = 30
)

// kinds is the name, the elements and the bytes of a block of each.
var kinds = map[Kind]struct {
	name        string
	elems, size int
}{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2}, Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20},
	Q5_0: {"Q5_0", 32, 22}, Q5_1: {"Q5_1", 32, 24}, Q8_0: {"Q8_0", 32, 34}, Q2_K: {"Q2_K", 256, 84},
	Q3_K: {"Q3_K", 256, 110}, Q4_K: {"Q4_K", 256, 144}, Q5_K: {"Q5_K", 256, 176}, Q6_K: {"Q6_K", 256, 210},
}

func (k Kind) String() string {
	if i, ok := kinds[k]; ok {
		return i.name
	}
	return fmt.Sprintf("type %d", uint32(k))
}

// Bytes returns the bytes of n elements; ok is false where they are no whole blocks, or the kind is not
// known.
func (k Kind) Bytes(n int) (bytes int, ok bool) {
	i, ok := kinds[k]
	if !ok || n%i.elems != 0 {
		return 0, false
	}
	return n / i.elems * i.size, true
}
