package process

import "time"

// Patience is how long other processes may be silent.
func (p *Process) Patience(d time.Duration) { p.patience = d }

// Lengths makes operands of a group longer than short bytes go by messages, and reductions in segments.
func (p *Process) Lengths(short, segment int) { p.short, p.segment = short, segment }
