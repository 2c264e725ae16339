//go:build linux && !noasm

#include "textflag.h"

// func call(code uintptr, args *uintptr)
TEXT ·call(SB), NOSPLIT, $8-16
	MOVQ code+0(FP), AX
	MOVQ args+8(FP), DI
	CALL AX
	RET
