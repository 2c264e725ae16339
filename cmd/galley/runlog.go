package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/fit"
)

// runLog holds the files of --log.
type runLog struct {
	files []*os.File
	logs  []*fit.RunLog
}

// logFormat returns the format of a file by its extension.
func logFormat(path string) (string, error) {
	switch f := strings.TrimPrefix(filepath.Ext(path), "."); f {
	case "jsonl", "csv":
		return f, nil
	}
	return "", fmt.Errorf("--log=%s: want a name that ends in .jsonl or .csv", path)
}

// openLogs opens the files of --log for a run that resumes after some steps. Rows of later steps, which are
// taken again, are cut off; a new run does not overwrite existing files.
func openLogs(paths []string, steps int) (*runLog, error) {
	l := &runLog{}
	for _, path := range paths {
		if err := l.open(path, steps); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (l *runLog) open(path string, steps int) error {
	format, err := logFormat(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil && steps == 0 {
		return fmt.Errorf("--log=%s: it is there, and this run begins anew: remove it or choose another name", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("--log: %w", err)
	}
	l.files = append(l.files, f)
	end, err := logEnd(f, format, steps)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, 0)
	}
	if err != nil {
		return fmt.Errorf("--log: %w", err)
	}
	log, err := fit.NewRunLog(f, format, end > 0)
	l.logs = append(l.logs, log)
	return err
}

// logEnd returns the offset at which a log's rows of the first steps end.
func logEnd(f *os.File, format string, steps int) (end int64, err error) {
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return end, nil // end of file, or an incomplete line
		}
		if step, ok := rowStep(line, format); ok && step > steps || !ok && !(format == "csv" && end == 0) {
			return end, nil
		}
		end += int64(len(line))
	}
}

// rowStep returns the step of a log's line.
func rowStep(line, format string) (int, bool) {
	if format == "csv" {
		first, _, _ := strings.Cut(line, ",")
		n, err := strconv.Atoi(first)
		return n, err == nil
	}
	var row struct{ Step int }
	err := json.Unmarshal([]byte(line), &row)
	return row.Step, err == nil
}

// write adds a row to all logs.
func (l *runLog) write(r fit.LogRow) error {
	for i, log := range l.logs {
		if err := log.Write(r); err != nil {
			return fmt.Errorf("--log=%s: %w", l.files[i].Name(), err)
		}
	}
	return nil
}

// event adds a line of its own to the JSON Lines logs.
func (l *runLog) event(text []byte) error {
	for _, f := range l.files {
		if format, _ := logFormat(f.Name()); format == "jsonl" {
			if _, err := f.Write(append(text, '\n')); err != nil {
				return fmt.Errorf("--log=%s: %w", f.Name(), err)
			}
		}
	}
	return nil
}

func (l *runLog) close() {
	var errs []error
	for _, f := range l.files {
		errs = append(errs, f.Close())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "galley: --log:", err)
	}
}
