package comm

// Progresser is a Comm or a Transport whose messages advance only during calls of it. A caller that computes
// while they are in flight calls Progress between two ops: it does the work that is ready, and never waits.
type Progresser interface{ Progress() }

// Progress returns the Progress method of a Comm or Transport; nil if its messages advance by themselves.
func Progress(x any) func() {
	if p, ok := x.(Progresser); ok {
		return p.Progress
	}
	return nil
}
