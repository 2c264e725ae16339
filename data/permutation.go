package data

import "math/bits"

// permutation is a keyed random order of the numbers below n that is computed, not stored: a Feistel network
// over the smallest even number of bits that holds n, applied until the result is below n (Black and Rogaway,
// Ciphers with Arbitrary Finite Domains, 2002). The domain is less than four times n, so this ends soon.
type permutation struct {
	n    uint64
	half int // bits of each half
	keys [rounds]uint64
}

// rounds is more than the four that make a Feistel network indistinguishable from random, because halves of a
// few bits mix slowly.
const rounds = 8

func newPermutation(n, seed, epoch uint64) permutation {
	p := permutation{n: n, half: max(1, (bits.Len64(n-1)+1)/2)}
	state := mix(seed) ^ mix(^epoch)
	for i := range p.keys {
		state += golden
		p.keys[i] = mix(state)
	}
	return p
}

// at returns the i-th number of the order, for i below n.
func (p permutation) at(i uint64) uint64 {
	for {
		i = p.encrypt(i)
		if i < p.n {
			return i
		}
	}
}

func (p permutation) encrypt(i uint64) uint64 {
	mask := uint64(1)<<p.half - 1
	left, right := i>>p.half, i&mask
	for _, key := range p.keys {
		left, right = right, left^mix(right^key)&mask
	}
	return left<<p.half | right
}

const golden = 0x9e3779b97f4a7c15

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += golden
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
