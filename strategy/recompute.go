package strategy

import (
	"fmt"
	"strconv"
	"strings"
)

// Recompute selects the activations that the backward pass recomputes instead of keeping them: none (or
// empty), selective (the attention core), full, or selective:N and full:N for the first N layers of each
// stage.
type Recompute string

// The modes of Recompute. Products recomputes every other matrix product and everything that is not a
// product, which torchtitan calls selective; it can be priced but not requested.
const (
	None      = "none"
	Selective = "selective"
	Full      = "full"
	Products  = "products"
)

// FullLayers returns full recomputation of the first n layers of each stage.
func FullLayers(n int) Recompute { return Recompute(Full + ":" + strconv.Itoa(n)) }

// Mode returns None, Selective, Products or Full.
func (r Recompute) Mode() string {
	if r == "" {
		return None
	}
	mode, _, limited := strings.Cut(string(r), ":")
	if limited && r.Layers() == 0 {
		return None
	}
	return mode
}

// Layers returns the number of layers per stage that are recomputed, -1 for all.
func (r Recompute) Layers() int {
	_, count, limited := strings.Cut(string(r), ":")
	if !limited {
		return -1
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return -1
	}
	return n
}

// Check returns an error for an unknown mode.
func (r Recompute) Check() error {
	mode, count, limited := strings.Cut(string(r), ":")
	known := mode == "" || mode == None || mode == Selective || mode == Full
	if n, err := strconv.Atoi(count); !known || limited && (err != nil || n < 0 || mode == None || mode == "") {
		return fmt.Errorf("recompute is %q: want none, selective, full, or selective:N or full:N for a number N "+
			"of layers", string(r))
	}
	return nil
}

// UnmarshalText reads a mode from a file or command line.
func (r *Recompute) UnmarshalText(text []byte) error {
	*r = Recompute(text)
	return r.Check()
}
