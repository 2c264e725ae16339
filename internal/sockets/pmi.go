package sockets

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// launcher is the one that started this process, as PMI-1 knows it: it keeps what processes put, and lets
// them wait for each other.
type launcher struct {
	rank, size int
	rw         io.ReadWriteCloser
	lines      *bufio.Scanner
}

// newLauncher speaks to the launcher that the environment tells of.
func newLauncher(getenv func(string) string) (*launcher, error) {
	var numbers [3]int
	for i, name := range []string{"PMI_FD", "PMI_RANK", "PMI_SIZE"} {
		n, err := strconv.Atoi(getenv(name))
		if err != nil {
			return nil, fmt.Errorf("%s=%s: want a number: start the processes by galley launch", name, getenv(name))
		}
		numbers[i] = n
	}
	f := os.NewFile(uintptr(numbers[0]), "pmi")
	l := &launcher{rank: numbers[1], size: numbers[2], rw: f, lines: bufio.NewScanner(f)}
	_, err := l.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
	return l, err
}

// ask says a line, and returns the words of the answer.
func (l *launcher) ask(line, want string) (map[string]string, error) {
	if _, err := io.WriteString(l.rw, line+"\n"); err != nil {
		return nil, fmt.Errorf("the launcher: %w", err)
	}
	if !l.lines.Scan() {
		return nil, fmt.Errorf("the launcher does not answer: %w", l.lines.Err())
	}
	words := map[string]string{}
	for word := range strings.FieldsSeq(l.lines.Text()) {
		if k, v, ok := strings.Cut(word, "="); ok {
			words[k] = v
		}
	}
	if words["cmd"] != want || words["rc"] != "" && words["rc"] != "0" {
		return nil, fmt.Errorf("the launcher answers %q to %q", l.lines.Text(), line)
	}
	return words, nil
}

// exchange puts a value and returns those of all processes, in order.
func (l *launcher) exchange(value string) ([]string, error) {
	const kvs = "kvsname=galley"
	if _, err := l.ask(fmt.Sprintf("cmd=put %s key=socket-%d value=%s", kvs, l.rank, value),
		"put_result"); err != nil {
		return nil, err
	}
	if _, err := l.ask("cmd=barrier_in", "barrier_out"); err != nil {
		return nil, err
	}
	list := make([]string, l.size)
	for i := range list {
		words, err := l.ask(fmt.Sprintf("cmd=get %s key=socket-%d", kvs, i), "get_result")
		if err != nil {
			return nil, err
		}
		list[i] = words["value"]
	}
	return list, nil
}

// close says that there is no more to ask.
func (l *launcher) close() error {
	_, err := l.ask("cmd=finalize", "finalize_ack")
	if e := l.rw.Close(); err == nil {
		err = e
	}
	return err
}
