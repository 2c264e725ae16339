package step

import (
	"fmt"
	"strconv"
	"strings"
)

// tape prints the tape of one device: its buffers, then its instructions.
func (w *printer) tape(t *tape) {
	w.line("tape %d rank %d", t.device, t.rank)
	for i := range t.buffers {
		b := &t.buffers[i]
		text := fmt.Sprintf("  %%%d = %s : %s", i, w.key(b.key), b.t)
		if b.offloaded {
			text += " away"
		}
		if !b.persistent() {
			text += fmt.Sprintf(" at %d", b.offset)
		}
		w.line("%s", text)
	}
	for i := range t.code {
		w.line("  %s", t.code[i].text(t))
	}
}

// keyWords has the printed names of the kinds of buffers.
var keyWords = map[bufferKind]string{valueBuffer: "value", scratch: "scratch", weightBuffer: "weight",
	slotBuffer: "slot", sumBuffer: "sum", scalarBuffer: "scalar", seedBuffer: "seed", reportBuffer: "report",
	resultBuffer: "result", inputBuffer: "input"}

// key returns the text of a buffer's key.
func (w *printer) key(k bufferKey) string {
	word := keyWords[k.kind]
	switch k.kind {
	case valueBuffer:
		return fmt.Sprintf("%s %d %d %d", word, k.stage, k.micro, k.value)
	case scratch, resultBuffer, inputBuffer:
		return fmt.Sprintf("%s %d %d", word, k.micro, k.value)
	case weightBuffer:
		return fmt.Sprintf("%s %q", word, w.p.Weights[k.stage].Name)
	case slotBuffer:
		return fmt.Sprintf("%s %d %q", word, k.value, w.p.Weights[k.stage].Name)
	case sumBuffer:
		return fmt.Sprintf("%s %d %q", word, k.stage, w.p.Weights[k.value].Name)
	case seedBuffer:
		return word
	}
	return fmt.Sprintf("%s %d", word, k.value)
}

// text returns an instruction as one line.
func (in *instruction) text(t *tape) string {
	switch in.kind {
	case send:
		return fmt.Sprintf("%s send %%%d to %d tag %d until %d : %s%s", in.name(), in.args[0], in.peer, in.tag,
			in.until,
			t.buffers[in.args[0]].t, in.piece.text())
	case receive:
		return fmt.Sprintf("%s receive %%%d from %d tag %d : %s%s", in.name(), in.out[0], in.peer, in.tag,
			t.buffers[in.out[0]].t, in.piece.text())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s run %d%s", in.name(), in.program, buffersText(" args", in.args))
	b.WriteString(buffersText(" out", in.out))
	if in.arena >= 0 {
		fmt.Fprintf(&b, " arena %%%d", in.arena)
	}
	for _, l := range in.loads {
		fmt.Fprintf(&b, " load %%%d input %d start %s size %s", l.buffer, l.batch, ints(l.box.Start),
			ints(l.box.Size))
	}
	for _, c := range in.copies {
		fmt.Fprintf(&b, " copy %%%d %%%d", c[0], c[1])
	}
	return b.String()
}

// text returns the buffer and position of a piece; nothing if the message is a whole buffer.
func (p *piece) text() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf(" of %%%d at %s", p.buffer, ints(p.start))
}

// buffersText returns a word followed by buffers, or nothing if there are none.
func buffersText(word string, list []int) string {
	if len(list) == 0 {
		return ""
	}
	for _, i := range list {
		word += " %" + strconv.Itoa(i)
	}
	return word
}

// ints returns numbers as one word: [2,9].
func ints(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return "[" + strings.Join(words, ",") + "]"
}
