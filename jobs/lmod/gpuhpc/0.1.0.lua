-- Lmod module of a checkout that scripts/build.sh has built.  module use CHECKOUT/jobs/lmod;  module load gpuhpc
help([[gpuhpc: classifiers from a class taxonomy and unlabelled text, on one core or many GPUs. `gpuhpc --help` lists commands and options;
the job scripts lie in $GPUHPC_ROOT/jobs/slurm, their profiles in $GPUHPC_ROOT/configs.]])
whatis("Name: gpuhpc")
whatis("Version: 0.1.0")
whatis("Description: weakly supervised hierarchical text classification with MPI and NCCL")
conflict("gpuhpc")
local root = myFileName():match("^(.*)/jobs/lmod/")
setenv("GPUHPC_ROOT", root)
prepend_path("PATH", pathJoin(root, "build/release"))
