package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCmd prints the version.
type versionCmd struct{}

func (versionCmd) Run() error {
	fmt.Printf("galley %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// versionText returns the program's version as text.
func versionText() string {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				version += " " + s.Value
			}
		}
	}
	return version
}
