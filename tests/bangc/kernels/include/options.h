#define BY FACTOR
