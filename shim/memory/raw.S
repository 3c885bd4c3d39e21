// System calls that Syscall User Dispatch lets through: the range from tc_shim_raw_begin to
// tc_shim_raw_end (dispatch.c).
// And the function syscall, and a call on another stack.
  .section .note.GNU-stack, "", %progbits
  .text

#if defined(__x86_64__)

.macro FUNCTION name
  .globl \name
  .hidden \name
  .type \name, @function
  .p2align 4
\name:
  .cfi_startproc
.endm

// The system call that a function's arguments are: its number, then its own six.
.macro SYSCALL_OF_ARGUMENTS
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  movq %r8, %r10
  movq %r9, %r8
  movq 8(%rsp), %r9
  syscall
.endm

  .globl tc_shim_raw_begin
  .hidden tc_shim_raw_begin
tc_shim_raw_begin:

// long tc_shim_raw(long number, long a, long b, long c, long d, long e, long f)
FUNCTION tc_shim_raw
  SYSCALL_OF_ARGUMENTS
  ret
  .cfi_endproc
  .size tc_shim_raw, . - tc_shim_raw

// Where our handlers return to. Unwinders know it by its bytes, as the C library's.
  .globl tc_shim_restore
  .hidden tc_shim_restore
  .type tc_shim_restore, @function
  .p2align 4
  nop
tc_shim_restore:
  movq $15, %rax  // rt_sigreturn
  syscall
  ud2  // the kernel compares the address behind the system call, which must be in the range
  .size tc_shim_restore, . - tc_shim_restore

  .globl tc_shim_raw_end
  .hidden tc_shim_raw_end
tc_shim_raw_end:

// long syscall(long number, ..), as the C library's. Not in the range: the kernel shows it, too. What
// copies the process on the same stack goes to tc_shim_fork_by_number.
  .globl syscall
  .type syscall, @function
  .p2align 4
syscall:
  .cfi_startproc
  cmpq $57, %rdi  // fork
  je tc_shim_fork_by_number
  cmpq $56, %rdi  // clone: flags, stack
  jne 1f
  testq $0x100, %rsi  // CLONE_VM
  jnz 1f
  testq %rdx, %rdx
  jz tc_shim_fork_by_number
1:
  SYSCALL_OF_ARGUMENTS
  cmpq $-4095, %rax
  jae 2f
  ret
2:
  negl %eax
  pushq %rax
  .cfi_adjust_cfa_offset 8
  call __errno_location@PLT
  popq %rcx
  .cfi_adjust_cfa_offset -8
  movl %ecx, (%rax)
  movq $-1, %rax
  ret
  .cfi_endproc
  .size syscall, . - syscall

// void tc_shim_on_stack(void *top, void (*function)(void *), void *argument)
FUNCTION tc_shim_on_stack
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rdi, %rsp
  movq %rdx, %rdi
  call *%rsi
  leave
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size tc_shim_on_stack, . - tc_shim_on_stack

#else
#error "no system calls are written for this processor"
#endif
