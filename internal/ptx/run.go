package ptx

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/galley-ml/galley/array"
)

// Run emulates a kernel's text on the host, for tests without such a device: clusters of two blocks one after
// the other, each with its threads, shared memory and barriers. The arrays are its parameters in order,
// without the scratch memory, which Run allocates. Asynchronous work happens as late as allowed: a copy when
// no thread can continue without it, a product when it is waited for. What would be undefined on a device is
// an error that names the line.
func Run(k Kernel, arrays []array.Array) error {
	return runWith(k, arrays, running{limit: 1 << 36})
}

// running is the options of an emulation.
type running struct {
	// limit is the most steps.
	limit int
	// dice chooses randomly which thread continues, and which copies and products happen as early as allowed;
	// nil means each thread in turn, and everything late.
	dice *rand.Rand
}

// early chooses randomly whether something happens as early as allowed.
func (r running) early() bool { return r.dice != nil && r.dice.IntN(2) == 0 }

// The limits of a block, and the layout of its address space: its shared memory follows what the device
// reserves, with the block's rank in the bits above.
const (
	maxThreads   = 1024
	maxShared    = 227 << 10
	maxStatic    = 48 << 10
	maxScratch   = 1 << 24
	keptBytes    = 1024
	rankShift    = 24
	arrayShift   = 40
	pairUnits    = 2
	warpThreads  = 32
	groupThreads = 128
)

// machine is the state of the emulated device.
type machine struct {
	kernel Kernel
	running
	prog *program
	// memory holds the arrays that parameters point to.
	memory [][]byte
	// released counts how often a tensor map was written to an address, 0 if never.
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

// runs checks the launch parameters of a kernel.
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

// garbage fills memory with NaNs, since the contents of new memory are undefined: a kernel must not rely on
// zeros.
func garbage(b []byte) []byte {
	for i := range b {
		b[i] = 0xff
	}
	return b
}

var errLimit = errors.New("too many steps")

// fault records why an instruction cannot run.
func (p *pair) fault(t *thread, format string, args ...any) {
	if p.err != nil {
		return
	}
	who := fmt.Sprintf("block %d, thread %d", p.first+t.unit.rank, t.index)
	p.err = fmt.Errorf("line %d: %s: %s: %s", p.now.line, p.now.text, who, fmt.Sprintf(format, args...))
}
