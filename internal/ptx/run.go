package ptx

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/galley-ml/galley/array"
)

// Run runs a kernel's text on the host, so that it can be tested where there is no such device: pairs of
// units one after the other, each with its threads, its memory and its barriers. The arrays are its
// parameters in order, without the memory for itself, which Run makes. What a device does in its own time
// happens as late as it may: a copy when no thread can continue without it, a product when it is waited for.
// What a device would not forgive is an error that names the line.
func Run(k Kernel, arrays []array.Array) error {
	return runWith(k, arrays, running{limit: 1 << 36})
}

// running is how a kernel is run.
type running struct {
	// limit is how many steps may be taken.
	limit int
	// dice draw which thread continues, and which copies and products happen as soon as they may; nil is each
	// thread in turn, and all else late.
	dice *rand.Rand
}

// early draws whether something happens as soon as it may.
func (r running) early() bool { return r.dice != nil && r.dice.IntN(2) == 0 }

// What a unit may have at most, and the place of memory: its own is behind what the device keeps for itself,
// the unit's number above it.
const (
	maxThreads   = 1024
	maxShared    = 227 << 10
	maxScratch   = 1 << 24
	keptBytes    = 1024
	rankShift    = 24
	arrayShift   = 40
	pairUnits    = 2
	warpThreads  = 32
	groupThreads = 128
)

// machine is where a kernel runs.
type machine struct {
	kernel Kernel
	running
	prog *program
	// memory is what parameters point to.
	memory [][]byte
	// released counts how often a map was written to a place, 0 if never.
	released map[uint64]int
}

func runWith(k Kernel, arrays []array.Array, how running) error {
	if err := runs(k); err != nil {
		return fmt.Errorf("ptx: kernel %s: %w", k.Name, err)
	}
	params := len(arrays)
	if k.Scratch > 0 {
		params++
	}
	prog, err := read(k, params)
	if err != nil {
		return fmt.Errorf("ptx: kernel %s: %w", k.Name, err)
	}
	m := &machine{kernel: k, running: how, prog: prog, released: map[uint64]int{}}
	for _, a := range arrays {
		m.memory = append(m.memory, a.Bytes())
	}
	m.memory = append(m.memory, garbage(make([]byte, k.Scratch)))
	p := newPair(m)
	for first := 0; first < k.Blocks; first += pairUnits {
		p.reset(first)
		if err := p.run(); err != nil {
			return fmt.Errorf("ptx: kernel %s: %w", k.Name, err)
		}
	}
	return nil
}

// runs checks how a kernel is to be launched.
func runs(k Kernel) error {
	switch {
	case k.Blocks < pairUnits || k.Blocks%pairUnits != 0:
		return fmt.Errorf("got %d blocks: want pairs of them", k.Blocks)
	case k.Threads < groupThreads || k.Threads%groupThreads != 0 || k.Threads > maxThreads:
		return fmt.Errorf("got %d threads: want a multiple of %d up to %d", k.Threads, groupThreads, maxThreads)
	case k.Shared < 0 || k.Shared > maxShared:
		return fmt.Errorf("got %d bytes of a unit's memory: want up to %d", k.Shared, maxShared)
	case k.Scratch < 0 || k.Scratch > maxScratch:
		return fmt.Errorf("got %d bytes of scratch memory: want up to %d", k.Scratch, maxScratch)
	}
	return nil
}

// garbage fills memory with what is no number and no zero, as nothing says what is in it before it is
// written.
func garbage(b []byte) []byte {
	for i := range b {
		b[i] = 0xff
	}
	return b
}

var errLimit = errors.New("too many steps")

// fault is why an instruction cannot run.
func (p *pair) fault(t *thread, format string, args ...any) {
	if p.err != nil {
		return
	}
	who := fmt.Sprintf("block %d, thread %d", p.first+t.unit.rank, t.index)
	p.err = fmt.Errorf("line %d: %s: %s: %s", p.now.line, p.now.text, who, fmt.Sprintf(format, args...))
}
