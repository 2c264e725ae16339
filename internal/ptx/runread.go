package ptx

import (
	"fmt"
	"strconv"
	"strings"
)

// program is a parsed kernel.
type program struct {
	// static is the bytes of shared memory that the text declares.
	static int
	code   []instruction
	// first is the index of the first register of a class, regs the number of registers.
	first, count map[byte]int
	regs         int
	params       int
	// sums holds the registers that products are added to, by index.
	sums map[int]bool
}

// instruction is a line of the text.
type instruction struct {
	line int
	text string
	// guard is the predicate register, which must be true or false for it to run; negative if there is none.
	guard   int
	negated bool
	run     func(t *thread) outcome
	// used lists its registers; touches reports that it uses sums without being a product.
	used    []int
	product bool
	touches bool
}

// outcome is the state of a thread after an instruction.
type outcome uint8

const (
	goOn outcome = iota
	// again means that it waits, and repeats the instruction when woken; parked that it continues after it
	// then.
	again
	parked
	ended
)

// maxRegs is the most registers that a text may declare: each thread has them all.
const maxRegs = 1 << 13

// syntaxError is the panic value of a decoder's methods; read returns it.
type syntaxError struct{ error }

// read parses a kernel's text.
func read(k Kernel, params int) (p *program, err error) {
	defer func() {
		if e := recover(); e != nil {
			syntax, ok := e.(syntaxError)
			if !ok {
				panic(e)
			}
			p, err = nil, syntax.error
		}
	}()
	r := &reader{lines: strings.Split(k.Text, "\n"), labels: map[string]int{},
		program: &program{first: map[byte]int{}, count: map[byte]int{}, params: params, sums: map[int]bool{}}}
	r.header(k)
	r.registers()
	for _, s := range r.statements() {
		r.program.code = append(r.program.code, r.decode(s))
	}
	if len(r.program.code) == 0 {
		r.fail("got no instructions: want some")
	}
	for i, in := range r.program.code {
		for _, reg := range in.used {
			r.program.code[i].touches = r.program.code[i].touches || !in.product && r.program.sums[reg]
		}
	}
	return r.program, nil
}

// reader reads the lines of a text.
type reader struct {
	lines []string
	// at is the number of the last line read.
	at      int
	labels  map[string]int
	program *program
}

func (r *reader) fail(format string, args ...any) {
	panic(syntaxError{fmt.Errorf("line %d: %s", r.at, fmt.Sprintf(format, args...))})
}

// line returns the next line.
func (r *reader) line() string {
	if r.at == len(r.lines) {
		r.fail("the text ends: want }")
	}
	r.at++
	return strings.TrimSpace(r.lines[r.at-1])
}

// header parses the text before the body, and checks the launch parameters against it.
func (r *reader) header(k Kernel) {
	list := make([]string, r.program.params)
	for i := range list {
		list[i] = fmt.Sprintf(".param .u64 p%d", i)
	}
	for _, want := range []string{".version 8.6", ".target sm_90a", ".address_size 64"} {
		r.want(want)
	}
	r.memory(k)
	for _, want := range []string{
		fmt.Sprintf(".visible .entry %s(%s)", k.Name, strings.Join(list, ", ")), fmt.Sprintf(".maxntid %d, 1, 1",
			k.Threads), ".minnctapersm 1"} {
		r.want(want)
	}
	if r.at < len(r.lines) && r.lines[r.at] == "{" { // blocks that are not in clusters
		r.at++
		return
	}
	r.want(".explicitcluster")
	r.want(fmt.Sprintf(".reqnctapercluster %d, 1, 1", pairUnits))
	r.want("{")
}

// memory parses the declaration of shared memory: dynamic, or of a fixed size.
func (r *reader) memory(k Kernel) {
	const kind = ".shared .align 1024 .b8 memory["
	rest, ok := strings.CutPrefix(r.line(), kind)
	if !ok {
		r.at--
		r.want(".extern " + kind + "];")
		return
	}
	n, err := strconv.Atoi(strings.TrimSuffix(rest, "];"))
	if err != nil || n < 1 || n > maxStatic || k.Shared > 0 {
		r.fail("got %q: want 1 to %d bytes, and none at the launch", r.lines[r.at-1], maxStatic)
	}
	r.program.static = n
}

// want reads a line that must be the given one.
func (r *reader) want(line string) {
	if got := r.line(); got != line {
		r.fail("got %q: want %q", got, line)
	}
}

// registers parses the declarations of registers.
func (r *reader) registers() {
	for {
		line := r.line()
		if !strings.HasPrefix(line, ".reg ") {
			r.at--
			return
		}
		class, n := byte(0), 0
		for _, c := range classes {
			rest, ok := strings.CutPrefix(line, fmt.Sprintf(".reg %s %%%s<", c[1], c[0]))
			rest, closed := strings.CutSuffix(rest, ">;")
			if count, err := strconv.Atoi(rest); ok && closed && err == nil {
				class, n = c[0][0], count
			}
		}
		if class == 0 || r.program.count[class] > 0 || n < 1 || n > maxRegs-r.program.regs {
			r.fail("got %q: want one line for registers of a kind, up to %d in all", line, maxRegs)
		}
		r.program.first[class], r.program.count[class] = r.program.regs, n
		r.program.regs += n
	}
}

// statement is an instruction with its line number.
type statement struct {
	line int
	text string
}

// statements parses the body, and records its labels.
func (r *reader) statements() (list []statement) {
	for {
		line := r.line()
		if name, ok := strings.CutSuffix(line, ":"); ok {
			if _, twice := r.labels[name]; twice || !isWord(name) {
				r.fail("got label %q: want a name, and each but once", name)
			}
			r.labels[name] = len(list)
			continue
		}
		if line == "}" {
			break
		}
		text, ok := strings.CutSuffix(line, ";")
		if !ok {
			r.fail("got %q: want an instruction and ;", line)
		}
		list = append(list, statement{r.at, text})
	}
	for _, rest := range r.lines[r.at:] {
		if strings.TrimSpace(rest) != "" {
			r.fail("got %q behind the body: want nothing", rest)
		}
	}
	return list
}

func isWord(s string) bool {
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	return s != ""
}

// name returns the name of a register.
func (p *program) name(reg int) string {
	for _, c := range classes {
		if first := p.first[c[0][0]]; reg >= first && reg < first+p.count[c[0][0]] {
			return fmt.Sprintf("%%%s%d", c[0], reg-first)
		}
	}
	return "no register"
}
