package pipeline

import "strconv"

// Kind is the kind of an action.
type Kind uint8

// Generators and people write compute kinds; Lower adds the others.
const (
	Forward  Kind = iota // F: the stage's forward pass
	Backward             // B: the whole backward pass: Input, then Weight
	// I: the gradient of the stage's input, which is all that the previous stage waits for
	Input
	Weight       // W: the gradient of the stage's weights, which no stage waits for
	SendForward  // SF: send the stage's output to the next stage
	RecvForward  // RF: receive the stage's input from the previous stage
	SendBackward // SB: send the gradient of the stage's input to the previous stage
	RecvBackward // RB: receive the gradient of the stage's output from the next stage

	kinds = 8
)

// letters holds how kinds are written.
var letters = [kinds]string{"F", "B", "I", "W", "SF", "RF", "SB", "RB"}

// String returns the kind as schedules write it: F, B, I, W, SF, RF, SB or RB.
func (k Kind) String() string {
	if k >= kinds {
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
	return letters[k]
}

// Computes reports whether the kind is computation, as opposed to communication.
func (k Kind) Computes() bool { return k <= Weight }

// Sends reports whether the kind sends data to another rank. It never blocks.
func (k Kind) Sends() bool { return k == SendForward || k == SendBackward }

// Receives reports whether the kind waits for data from another rank.
func (k Kind) Receives() bool { return k == RecvForward || k == RecvBackward }

// Action is one entry of a rank's schedule: a kind of work of one stage on one micro-batch.
type Action struct {
	Stage int
	Kind  Kind
	// Joined means that the action and the next one of its rank form one unit, a forward and a backward that
	// hide each other's communication: the unit begins when both can, and both end with it. A rank may still run
	// them in turn.
	Joined bool
	Micro  int
}

// String returns stage, kind and micro-batch without blanks: 0F0, 3SB12.
func (a Action) String() string { return string(a.appendTo(nil)) }

// act returns an action that is not joined.
func act(stage int, kind Kind, micro int) Action {
	return Action{Stage: stage, Kind: kind, Micro: micro}
}

func (a Action) appendTo(b []byte) []byte {
	b = strconv.AppendInt(b, int64(a.Stage), 10)
	b = append(b, a.Kind.String()...)
	return strconv.AppendInt(b, int64(a.Micro), 10)
}

// Peer returns the stage at the other end of a send or a receive.
func (a Action) Peer() int {
	switch a.Kind {
	case SendForward, RecvBackward:
		return a.Stage + 1
	case SendBackward, RecvForward:
		return a.Stage - 1
	}
	return a.Stage
}
