//go:build !purego

#include "textflag.h"

// func hasSHA() bool
TEXT ·hasSHA(SB), NOSPLIT, $0-1
	XORL AX, AX
	CPUID
	CMPL AX, $7
	JLT  no
	MOVL $7, AX
	XORL CX, CX
	CPUID
	SHRL $29, BX
	ANDL $1, BX
	MOVB BX, ret+0(FP)
	RET

no:
	MOVB $0, ret+0(FP)
	RET

// The byte order of a message's words.
DATA flip<>+0(SB)/8, $0x0405060700010203
DATA flip<>+8(SB)/8, $0x0c0d0e0f08090a0b
GLOBL flip<>(SB), RODATA|NOPTR, $16

// A state is kept as ABEF and CDGH, for which the instructions are made.
#define LOAD(at, s0, s1) \
	MOVOU   (at), s0          \
	MOVOU   16(at), s1        \
	PSHUFD  $0xb1, s0, s0     \
	PSHUFD  $0x1b, s1, s1     \
	MOVO    s0, X13           \
	PALIGNR $8, s1, s0        \
	PBLENDW $0xf0, X13, s1

#define STORE(at, s0, s1) \
	PSHUFD  $0x1b, s0, s0     \
	PSHUFD  $0xb1, s1, s1     \
	MOVO    s0, X13           \
	PBLENDW $0xf0, s1, s0     \
	PALIGNR $8, X13, s1       \
	MOVOU   s0, (at)          \
	MOVOU   s1, 16(at)

// Four rounds with the words in m and the constants at k.
#define ROUNDS(k, s0, s1, m) \
	MOVOU       k(AX), X0     \
	PADDD       m, X0         \
	SHA256RNDS2 X0, s0, s1    \
	PSHUFD      $0x0e, X0, X0 \
	SHA256RNDS2 X0, s1, s0

#define WORDS(off, at, m) \
	MOVOU  off(at), m         \
	PSHUFB X14, m

// What has become of the words before in next becomes the words after those in m.
#define NEXT(prev, m, next) \
	MOVO       m, X13         \
	PALIGNR    $4, prev, X13  \
	PADDD      X13, next      \
	SHA256MSG2 m, next

// func blocks2(a, b *[8]uint32, p, q *byte, n int, k *[64]uint32)
TEXT ·blocks2(SB), NOSPLIT, $64-48
	MOVQ  a+0(FP), DI
	MOVQ  b+8(FP), SI
	MOVQ  p+16(FP), R8
	MOVQ  q+24(FP), R9
	MOVQ  n+32(FP), CX
	MOVQ  k+40(FP), AX
	TESTQ CX, CX
	JLE   done
	MOVOU flip<>(SB), X14
	LOAD(DI, X1, X2)
	LOAD(SI, X3, X4)

loop:
	MOVOU X1, 0(SP)
	MOVOU X2, 16(SP)
	MOVOU X3, 32(SP)
	MOVOU X4, 48(SP)

	WORDS(0, R8, X5)
	ROUNDS(0, X1, X2, X5)
	WORDS(0, R9, X9)
	ROUNDS(0, X3, X4, X9)
	WORDS(16, R8, X6)
	ROUNDS(16, X1, X2, X6)
	SHA256MSG1 X6, X5
	WORDS(16, R9, X10)
	ROUNDS(16, X3, X4, X10)
	SHA256MSG1 X10, X9
	WORDS(32, R8, X7)
	ROUNDS(32, X1, X2, X7)
	SHA256MSG1 X7, X6
	WORDS(32, R9, X11)
	ROUNDS(32, X3, X4, X11)
	SHA256MSG1 X11, X10
	WORDS(48, R8, X8)
	ROUNDS(48, X1, X2, X8)
	NEXT(X7, X8, X5)
	SHA256MSG1 X8, X7
	WORDS(48, R9, X12)
	ROUNDS(48, X3, X4, X12)
	NEXT(X11, X12, X9)
	SHA256MSG1 X12, X11
	ROUNDS(64, X1, X2, X5)
	NEXT(X8, X5, X6)
	SHA256MSG1 X5, X8
	ROUNDS(64, X3, X4, X9)
	NEXT(X12, X9, X10)
	SHA256MSG1 X9, X12
	ROUNDS(80, X1, X2, X6)
	NEXT(X5, X6, X7)
	SHA256MSG1 X6, X5
	ROUNDS(80, X3, X4, X10)
	NEXT(X9, X10, X11)
	SHA256MSG1 X10, X9
	ROUNDS(96, X1, X2, X7)
	NEXT(X6, X7, X8)
	SHA256MSG1 X7, X6
	ROUNDS(96, X3, X4, X11)
	NEXT(X10, X11, X12)
	SHA256MSG1 X11, X10
	ROUNDS(112, X1, X2, X8)
	NEXT(X7, X8, X5)
	SHA256MSG1 X8, X7
	ROUNDS(112, X3, X4, X12)
	NEXT(X11, X12, X9)
	SHA256MSG1 X12, X11
	ROUNDS(128, X1, X2, X5)
	NEXT(X8, X5, X6)
	SHA256MSG1 X5, X8
	ROUNDS(128, X3, X4, X9)
	NEXT(X12, X9, X10)
	SHA256MSG1 X9, X12
	ROUNDS(144, X1, X2, X6)
	NEXT(X5, X6, X7)
	SHA256MSG1 X6, X5
	ROUNDS(144, X3, X4, X10)
	NEXT(X9, X10, X11)
	SHA256MSG1 X10, X9
	ROUNDS(160, X1, X2, X7)
	NEXT(X6, X7, X8)
	SHA256MSG1 X7, X6
	ROUNDS(160, X3, X4, X11)
	NEXT(X10, X11, X12)
	SHA256MSG1 X11, X10
	ROUNDS(176, X1, X2, X8)
	NEXT(X7, X8, X5)
	SHA256MSG1 X8, X7
	ROUNDS(176, X3, X4, X12)
	NEXT(X11, X12, X9)
	SHA256MSG1 X12, X11
	ROUNDS(192, X1, X2, X5)
	NEXT(X8, X5, X6)
	SHA256MSG1 X5, X8
	ROUNDS(192, X3, X4, X9)
	NEXT(X12, X9, X10)
	SHA256MSG1 X9, X12
	ROUNDS(208, X1, X2, X6)
	NEXT(X5, X6, X7)
	ROUNDS(208, X3, X4, X10)
	NEXT(X9, X10, X11)
	ROUNDS(224, X1, X2, X7)
	NEXT(X6, X7, X8)
	ROUNDS(224, X3, X4, X11)
	NEXT(X10, X11, X12)
	ROUNDS(240, X1, X2, X8)
	ROUNDS(240, X3, X4, X12)

	MOVOU 0(SP), X0
	PADDD X0, X1
	MOVOU 16(SP), X0
	PADDD X0, X2
	MOVOU 32(SP), X0
	PADDD X0, X3
	MOVOU 48(SP), X0
	PADDD X0, X4
	ADDQ  $64, R8
	ADDQ  $64, R9
	DECQ  CX
	JNZ   loop
	STORE(DI, X1, X2)
	STORE(SI, X3, X4)

done:
	RET
