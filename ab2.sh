cd /tmp/hostw; export TC_LLVM_PATH=/tmp/wt-host/build/libtc-llvm.so
for i in 1 2 3; do for L in /tmp/hostw/nb /tmp/hostw/bi; do echo $L; export LD_LIBRARY_PATH=$L; for w in 0 1 2; do ./rec 30000 $w; done;   done; done
