package pipeline

// flow holds the dependencies between actions. Everything that one action produces and another needs has a
// cell. There are four kinds of cells for each stage and micro-batch: the stage's input, the gradient of its
// output, and the same two in transit, in lowered schedules.
type flow struct {
	s       *Schedule
	lowered bool
}

const none = -1

// cells returns the number of cells.
func (f flow) cells() int {
	if f.lowered {
		return 4 * f.s.Stages * f.s.Micros
	}
	return 2 * f.s.Stages * f.s.Micros
}

func (f flow) cell(group, stage, micro int) int {
	return (group*f.s.Stages+stage)*f.s.Micros + micro
}

// stageOf returns the stage that needs a cell.
func (f flow) stageOf(cell int) int { return cell / f.s.Micros % f.s.Stages }

// needs returns the cell that must exist before the action can begin, or none. What an action needs from
// earlier ones of its own stage, such as a weight gradient from its input gradient, follows from their order.
func (f flow) needs(a Action) int {
	switch a.Kind {
	case Forward:
		if a.Stage > 0 {
			return f.cell(0, a.Stage, a.Micro)
		}
	case Backward, Input:
		return f.cell(1, a.Stage, a.Micro)
	case RecvForward:
		return f.cell(2, a.Stage, a.Micro)
	case RecvBackward:
		return f.cell(3, a.Stage, a.Micro)
	}
	return none
}

// makes returns the cell that the action produces, or none. The last stage's forward produces the gradient
// that its backward needs. A result that has to be sent first produces nothing by itself.
func (f flow) makes(a Action) int {
	switch a.Kind {
	case Forward:
		if a.Stage == f.s.Stages-1 {
			return f.cell(1, a.Stage, a.Micro)
		}
		if !f.lowered || !f.crosses(a.Stage) {
			return f.cell(0, a.Stage+1, a.Micro)
		}
	case Backward, Input:
		if a.Stage > 0 && (!f.lowered || !f.crosses(a.Stage-1)) {
			return f.cell(1, a.Stage-1, a.Micro)
		}
	case SendForward:
		return f.cell(2, a.Stage+1, a.Micro)
	case RecvForward:
		return f.cell(0, a.Stage, a.Micro)
	case SendBackward:
		return f.cell(3, a.Stage-1, a.Micro)
	case RecvBackward:
		return f.cell(1, a.Stage, a.Micro)
	}
	return none
}

// crosses reports whether stages i and i+1 are on different ranks.
func (f flow) crosses(i int) bool { return f.s.Place[i] != f.s.Place[i+1] }

// carried returns the boundary over which the action's result is sent to another rank, or none: boundary i is
// between stages i and i+1.
func (f flow) carried(a Action) int {
	i := none
	switch a.Kind {
	case Forward, SendForward:
		i = a.Stage
	case Backward, Input, SendBackward:
		i = a.Stage - 1
	}
	if i < 0 || i >= f.s.Stages-1 || a.Kind.Computes() && f.lowered || !f.crosses(i) {
		return none
	}
	return i
}
