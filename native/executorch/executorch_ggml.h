/* The C functions of the runtime library. The delegate itself needs none of them: it registers itself. */
#ifndef EXECUTORCH_GGML_H
#define EXECUTORCH_GGML_H

#if defined(_WIN32)
#define EXECUTORCH_GGML_API __declspec(dllexport)
#else
#define EXECUTORCH_GGML_API __attribute__((visibility("default")))
#endif

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong in the last failed load or run on this thread; "" if nothing did since the last clearing. */
EXECUTORCH_GGML_API const char* executorch_ggml_last_error(void);

/* Forget it, so that what is there after the next call is of that call. */
EXECUTORCH_GGML_API void executorch_ggml_clear_error(void);

/* Threads of programs that are loaded from now on; 0: EXECUTORCH_GGML_NUM_THREADS, or one a core. To ask gives 0 where
   that variable is no number of threads: see the last error. */
EXECUTORCH_GGML_API void executorch_ggml_set_num_threads(int threads);
EXECUTORCH_GGML_API int executorch_ggml_get_num_threads(void);

/* The device of programs that are loaded from now on and whose runtime spec "device" does not name one, by ggml's name,
   or several, as "CUDA0=3,CUDA1=1" with a share of the weights and states each, or "CUDA0,CUDA1" by free memory;
   "": EXECUTORCH_GGML_DEVICE, or the CPU. */
EXECUTORCH_GGML_API void executorch_ggml_set_device(const char* name);

/* From now on the runs of this thread ask `check` about ten times a second, between nodes that the CPU computes,
   whether to end: anything but 0 ends the run with an error, and the method can be run again. null: they ask nobody. */
EXECUTORCH_GGML_API void executorch_ggml_set_interrupt(int (*check)(void* context), void* context);

/* The states (mutated buffers) of the program whose method was loaded last on this thread, as a number to reset them
   by. Asking takes it: 0 from then on, until a method that has states is loaded. The methods of one loaded program
   share their states. */
EXECUTORCH_GGML_API uint64_t executorch_ggml_take_states(void);

/* Put states back to their first contents: those that the module's buffers had at export. 1, or 0 if the program is
   gone. */
EXECUTORCH_GGML_API int executorch_ggml_reset_states(uint64_t states);

/* Open a GGUF file for the programs whose weights were left in it at export; they find it by what is in it, not by its
   path. Its number, or 0 where it is damaged or cannot be opened: see the last error. Methods that are loaded while it
   is open keep it mapped. */
EXECUTORCH_GGML_API uint64_t executorch_ggml_open_gguf(const char* path);

/* Close it for what is loaded from then on. 1, or 0 if no open file has this number. */
EXECUTORCH_GGML_API int executorch_ggml_close_gguf(uint64_t file);

/* Check a program (.pte), and the data file (.ptd) that is loaded with it (null: none), before they are given to
   ExecuTorch, which takes much of their contents for granted and may end the process where they are damaged. Reads no
   weights. 1, or 0: see the last error. */
EXECUTORCH_GGML_API int executorch_ggml_verify_files(const char* program, const char* data);

/* The same, and open them for ExecuTorch as they were checked: what is written to the files later cannot change the
   program. `map`: the weights are read from the mapped files while methods run, and these must stay as they are;
   0: they are read into memory now. Each loader is an executorch::runtime::DataLoader*, which the caller deletes after
   the Program or Module that it was given to. */
EXECUTORCH_GGML_API int executorch_ggml_open_files(const char* program, const char* data, int map,
                                                   void** program_loader, void** data_loader);

/* 1 once GgmlBackend is registered with ExecuTorch. */
EXECUTORCH_GGML_API int executorch_ggml_is_registered(void);

#ifdef __cplusplus
}
#endif

#endif /* EXECUTORCH_GGML_H */
