// What an exported name is, and how a call is taken apart without its types: registers and words of the stack are kept
// as they came, and given to the real routine as they were.
//
// An entry jumps to where its slot says: at first tc_shim_slow, later the real routine itself, tc_shim_route, which
// chooses by the caller's module, or tc_shim_enter, which asks tc_shim_before.
//
// The frame of tc_shim_enter, in words from its base, which is the frame pointer:
//    2 ..    arguments on the stack
//    1       the return address
//    0       the caller's frame pointer
//   -1 ..    integer registers of arguments, from the first
//   then     vector registers of arguments, 16 bytes each; the first at -8 on x86-64 and -10 on AArch64
//   last     room for a tc_shim_call
// Invariants: what a caller passes in a register or on the stack reaches the real routine; so does what that returns.

#define SLOT_GO 0
#define SLOT_CALLEES 8
#define CALLEE_FROM 0
#define CALLEE_BYTES 8
#define CALLEE_REAL 16
#define CALLEE_NEXT 24

  .section .note.GNU-stack, "", %progbits
  .text

#if defined(__x86_64__)

#define FRAME 448
#define CALL -448

.macro ENTRY index, name
  .globl \name
  .type \name, @function
  .p2align 4
\name:
  .cfi_startproc
  endbr64
  movl $\index, %r11d
  movq tc_shim_slots + 16 * \index + SLOT_GO(%rip), %r10
  testq %r10, %r10
  jz tc_shim_slow
  jmp *%r10
  .cfi_endproc
  .size \name, . - \name
.endm

.macro FUNCTION name
  .globl \name
  .hidden \name
  .type \name, @function
  .p2align 4
\name:
.endm

.macro OPEN_FRAME
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $FRAME, %rsp
  movq %rdi, -8(%rbp)
  movq %rsi, -16(%rbp)
  movq %rdx, -24(%rbp)
  movq %rcx, -32(%rbp)
  movq %r8, -40(%rbp)
  movq %r9, -48(%rbp)
  movaps %xmm0, -64(%rbp)
  movaps %xmm1, -80(%rbp)
  movaps %xmm2, -96(%rbp)
  movaps %xmm3, -112(%rbp)
  movaps %xmm4, -128(%rbp)
  movaps %xmm5, -144(%rbp)
  movaps %xmm6, -160(%rbp)
  movaps %xmm7, -176(%rbp)
  movq %r11, -184(%rbp)
  movq %rax, -192(%rbp)  // of a function with variable arguments: how many are in vector registers
.endm

.macro RESTORE
  movq -8(%rbp), %rdi
  movq -16(%rbp), %rsi
  movq -24(%rbp), %rdx
  movq -32(%rbp), %rcx
  movq -40(%rbp), %r8
  movq -48(%rbp), %r9
  movaps -64(%rbp), %xmm0
  movaps -80(%rbp), %xmm1
  movaps -96(%rbp), %xmm2
  movaps -112(%rbp), %xmm3
  movaps -128(%rbp), %xmm4
  movaps -144(%rbp), %xmm5
  movaps -160(%rbp), %xmm6
  movaps -176(%rbp), %xmm7
  movq -184(%rbp), %r11
  movq -192(%rbp), %rax
.endm

// In: r11 the entry. Finds out where its calls go, and goes there.
FUNCTION tc_shim_slow
  OPEN_FRAME
  movl %r11d, %edi
  movq 8(%rbp), %rsi
  call tc_shim_first
  movq %rax, %r10
  RESTORE
  leave
  .cfi_def_cfa %rsp, 8
  jmp *%r10
  .cfi_endproc
  .size tc_shim_slow, . - tc_shim_slow

// In: r11 the entry. Changes r10 and r11 alone; rax waits below the stack.
FUNCTION tc_shim_route
  .cfi_startproc
  movq %rax, -8(%rsp)
  movq %r11, %r10
  shlq $4, %r10
  leaq tc_shim_slots + SLOT_CALLEES(%rip), %rax
  movq (%rax, %r10), %r10
1:
  testq %r10, %r10
  jz 3f
  movq (%rsp), %rax
  subq CALLEE_FROM(%r10), %rax
  cmpq CALLEE_BYTES(%r10), %rax
  jb 2f
  movq CALLEE_NEXT(%r10), %r10
  jmp 1b
2:
  movq -8(%rsp), %rax
  jmp *CALLEE_REAL(%r10)
3:
  movq -8(%rsp), %rax
  jmp tc_shim_slow
  .cfi_endproc
  .size tc_shim_route, . - tc_shim_route

// In: r11 the entry.
FUNCTION tc_shim_enter
  OPEN_FRAME
  movl %r11d, %edi
  movq %rbp, %rsi
  leaq CALL(%rbp), %rdx
  call tc_shim_before
  testq %rax, %rax
  jz 3f
  testq %rdx, %rdx
  js 4f
  movq %rdx, %rcx
  incq %rdx
  andq $-2, %rdx
  shlq $3, %rdx
  subq %rdx, %rsp
  jmp 2f
1:
  movq 8(%rbp, %rcx, 8), %r10
  movq %r10, -8(%rsp, %rcx, 8)
  decq %rcx
2:
  testq %rcx, %rcx
  jnz 1b
  movq %rax, %r10
  RESTORE
  call *%r10
  movq %rax, -8(%rbp)
  movq %rdx, -16(%rbp)
  movaps %xmm0, -64(%rbp)
  movaps %xmm1, -80(%rbp)
  movq %rbp, %rdi
  leaq CALL(%rbp), %rsi
  call tc_shim_after
  movq -8(%rbp), %rax
  movq -16(%rbp), %rdx
  movaps -64(%rbp), %xmm0
  movaps -80(%rbp), %xmm1
3:
  movaps -64(%rbp), %xmm0  // a result that was put there
  leave
  .cfi_remember_state
  .cfi_def_cfa %rsp, 8
  ret
4:
  .cfi_restore_state
  movq %rax, %r10
  RESTORE
  leave
  .cfi_def_cfa %rsp, 8
  jmp *%r10
  .cfi_endproc
  .size tc_shim_enter, . - tc_shim_enter

#elif defined(__aarch64__)

#define FRAME 464

.macro ENTRY index, name
  .globl \name
  .type \name, %function
  .p2align 4
\name:
  .cfi_startproc
  hint #34  // bti c
  mov w17, #\index
  adrp x16, tc_shim_slots + 16 * \index
  ldr x16, [x16, #:lo12:tc_shim_slots + 16 * \index]
  cbz x16, tc_shim_slow
  br x16
  .cfi_endproc
  .size \name, . - \name
.endm

.macro FUNCTION name
  .globl \name
  .hidden \name
  .type \name, %function
  .p2align 4
\name:
.endm

.macro OPEN_FRAME
  .cfi_startproc
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  mov x29, sp
  .cfi_def_cfa_register x29
  sub sp, sp, #FRAME
  stp x1, x0, [x29, #-16]
  stp x3, x2, [x29, #-32]
  stp x5, x4, [x29, #-48]
  stp x7, x6, [x29, #-64]
  stp q1, q0, [x29, #-96]
  stp q3, q2, [x29, #-128]
  stp q5, q4, [x29, #-160]
  stp q7, q6, [x29, #-192]
  stp x17, x8, [x29, #-208]  // the entry, and where a structure is returned
.endm

.macro RESTORE
  ldp x1, x0, [x29, #-16]
  ldp x3, x2, [x29, #-32]
  ldp x5, x4, [x29, #-48]
  ldp x7, x6, [x29, #-64]
  ldp q1, q0, [x29, #-96]
  ldp q3, q2, [x29, #-128]
  ldp q5, q4, [x29, #-160]
  ldp q7, q6, [x29, #-192]
  ldp x17, x8, [x29, #-208]
.endm

.macro CLOSE_FRAME
  mov sp, x29
  ldp x29, x30, [sp], #16
  .cfi_def_cfa sp, 0
  .cfi_restore x29
  .cfi_restore x30
.endm

// In: w17 the entry. Finds out where its calls go, and goes there.
FUNCTION tc_shim_slow
  OPEN_FRAME
  mov w0, w17
  mov x1, x30
  bl tc_shim_first
  mov x16, x0
  RESTORE
  CLOSE_FRAME
  br x16
  .cfi_endproc
  .size tc_shim_slow, . - tc_shim_slow

// In: w17 the entry. Changes x9, x10, x16 and x17 alone.
FUNCTION tc_shim_route
  .cfi_startproc
  hint #34  // bti c
  adrp x16, tc_shim_slots
  add x16, x16, #:lo12:tc_shim_slots
  add x16, x16, x17, lsl #4
  ldr x16, [x16, #SLOT_CALLEES]
1:
  cbz x16, tc_shim_slow
  ldp x9, x10, [x16, #CALLEE_FROM]
  sub x9, x30, x9
  cmp x9, x10
  b.lo 2f
  ldr x16, [x16, #CALLEE_NEXT]
  b 1b
2:
  ldr x16, [x16, #CALLEE_REAL]
  br x16
  .cfi_endproc
  .size tc_shim_route, . - tc_shim_route

// In: w17 the entry.
FUNCTION tc_shim_enter
  OPEN_FRAME
  mov w0, w17
  mov x1, x29
  sub x2, x29, #FRAME
  bl tc_shim_before
  cbz x0, 3f
  tbnz x1, #63, 4f
  mov x16, x0
  add x9, x1, #1
  and x9, x9, #-2
  sub sp, sp, x9, lsl #3
  mov x10, sp
  add x11, x29, #16
  b 2f
1:
  ldr x12, [x11], #8
  str x12, [x10], #8
  sub x1, x1, #1
2:
  cbnz x1, 1b
  RESTORE
  blr x16
  stp x1, x0, [x29, #-16]
  stp q1, q0, [x29, #-96]
  stp q3, q2, [x29, #-128]
  mov x0, x29
  sub x1, x29, #FRAME
  bl tc_shim_after
  ldp x1, x0, [x29, #-16]
  ldp q1, q0, [x29, #-96]
  ldp q3, q2, [x29, #-128]
3:
  .cfi_remember_state
  CLOSE_FRAME
  ret
4:
  .cfi_restore_state
  mov x16, x0
  RESTORE
  CLOSE_FRAME
  br x16
  .cfi_endproc
  .size tc_shim_enter, . - tc_shim_enter

#else
#error "the shim has no stubs for this processor"
#endif
