package process

// Lengths makes operands of a group longer than short bytes go by messages, and reductions in segments.
func (p *Process) Lengths(short, segment int) { p.short, p.segment = short, segment }
