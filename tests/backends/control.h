// What tests tell the back end of far.c, and what it counts. The object exports one as far_control.
#pragma once

typedef enum far_function {
  FAR_OPEN,
  FAR_ALLOC,
  FAR_WRITE,
  FAR_READ,
  FAR_COPY,
  FAR_PREPARE,
  FAR_RUN,
  FAR_N
} far_function;

typedef struct far_control {
  int fails_in[FAR_N];  // calls until one fails; 0: none
  int result;  // that it then returns
  int n_calls[FAR_N];
  long n_live, n_kernels, n_devices;  // memory, kernels and devices that were not given back
  long most_live;  // memory that may be live; 0: any
} far_control;
